//! Known bugs, to show that the tests would find them.
//!
//! A place where the code could be wrong in an instructive way says
//! `if planted!("its-name") { … }`. In a usual build that is the constant `false`. In a build with
//! `--cfg planted` the bug of the name that the environment variable `LOGFORCE_PLANTED` holds is
//! there. `docs/known-bugs.md` lists them, each with the suite that catches it.

/// Whether the known bug of that name is to be there. Constant `false` in every usual build.
#[macro_export]
#[doc(hidden)]
macro_rules! planted {
    ($name:literal) => {
        $crate::planted::is($name)
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
