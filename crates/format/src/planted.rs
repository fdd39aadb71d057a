//! Known bugs, which show that the tests would find them.
//!
//! Code that could be wrong in an instructive way contains `if planted!("its-name") { … }`. In a usual build
//! that is the constant `false`. In a build with `--cfg planted` it is true for the bug whose name is in the
//! environment variable `LOGFORCE_PLANTED`. `docs/known-bugs.md` lists all of them, each with the suite that
//! catches it.

/// Returns true if the known bug of that name is enabled. Constant `false` in every usual build.
///
/// With two more values it is an expression: the first value with the bug, the second in every usual build.
/// Only that one is evaluated. This keeps known bugs out of conditions: the condition gets a name, and the
/// following code shows only the correct behaviour.
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
