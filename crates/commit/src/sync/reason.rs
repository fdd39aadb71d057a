//! Reasons of wake-ups and of waits.
//!
//! A missed wake-up is a hang, which tests of results do not detect. So each wake-up has a name, with the
//! thread that would sleep forever without it. A build with `--cfg planted` can leave out any one of them, to
//! show that the checkers of interleavings find it.

/// Reason of a wake-up or of a wait.
pub trait Reason: Copy {
    /// Returns true if a known bug leaves this one out; always `false` except in a planted build.
    fn is_forgotten(self) -> bool;
}

/// Declares an enum of reasons. A planted build can leave out each variant as a known bug. A variant with an
/// empty name has no known bug.
#[macro_export]
#[doc(hidden)]
macro_rules! reasons {
    ($(#[$doc:meta])* $name:ident { $($(#[$why:meta])* $variant:ident = $bug:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $name {
            $($(#[$why])* $variant,)+
        }

        impl $crate::sync::reason::Reason for $name {
            #[inline]
            fn is_forgotten(self) -> bool {
                match self {
                    $($name::$variant => !$bug.is_empty() && ::logforce_device::planted!($bug),)+
                }
            }
        }
    };
}

/// Reason that no known bug leaves out, for tests.
#[cfg(test)]
#[derive(Clone, Copy)]
pub(crate) struct Always;

#[cfg(test)]
impl Reason for Always {
    fn is_forgotten(self) -> bool {
        false
    }
}
