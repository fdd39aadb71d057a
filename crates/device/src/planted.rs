//! Known bugs of backends, to show that the tests would find them: as `logforce_format::planted!`,
//! for what knows nothing of a log.

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
