//! Known bugs of backends, which show that the tests would find them. Same as `logforce_format::planted!`,
//! for code that does not depend on the log's format.

/// Returns true if the known bug of that name is enabled. Constant `false` in every usual build.
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
