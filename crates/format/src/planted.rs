//! Known bugs, to show that the tests would find them.
//!
//! A place where the code could be wrong in an instructive way says
//! `if planted!("its-name") { … }`. In a usual build that is the constant `false`. In a build with
//! `--cfg planted` the bug of the name that the environment variable `LOGFORCE_PLANTED` holds is
//! there. `docs/known-bugs.md` lists them, each with the suite that catches it.

/// Whether the known bug of that name is to be there. Constant `false` in every usual build.
///
/// With two values more it is an expression: the first with the bug, the second in every usual
/// build. Only that one is evaluated. So no known bug stands inside a condition: the condition gets
/// a name, and the code that follows says only what is right.
///
/// ```
/// # use logforce_format::planted;
/// # let (read, len) = (3, 4);
/// let is_short = planted!("its-name", false, else read < len);
/// if is_short {
///     // …
/// }
/// # assert!(is_short);
/// ```
#[macro_export]
#[doc(hidden)]
macro_rules! planted {
    ($name:literal) => {
        $crate::planted::is($name)
    };
    ($name:literal, $wrong:expr, else $right:expr) => {
        if $crate::planted!($name) {
            $wrong
        } else {
            $right
        }
    };
}

/// See [`planted!`](crate::planted!).
#[cfg(not(planted))]
#[inline(always)]
pub const fn is(_name: &str) -> bool {
    false
}

/// See [`planted!`](crate::planted!).
#[cfg(planted)]
pub fn is(name: &str) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| std::env::var("LOGFORCE_PLANTED").ok());
    chosen.as_deref() == Some(name)
}
