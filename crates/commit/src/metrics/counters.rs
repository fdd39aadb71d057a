//! Counters, their snapshot and their names, from one list.

use std::sync::atomic::{AtomicU64, Ordering::*};

/// A counter that only grows.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`, from any thread.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    /// Adds `n` without an atomic addition, to a counter that changes only under one mutex.
    #[inline]
    pub fn add_locked(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Returns the count.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Declares the counters of a log or a file.
#[macro_export]
#[doc(hidden)]
macro_rules! counters {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        /// The counters.
        #[derive(Default)]
        pub(crate) struct CounterSet {
            $(pub(crate) $name: $crate::metrics::counters::Counter,)+
        }

        /// Counts since the opening.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        #[non_exhaustive]
        pub struct Counters {
            $($(#[$doc])+ pub $name: u64,)+
        }

        impl Counters {
            /// Names of all counters, in the order of [`Counters::values`].
            pub const NAMES: &[&str] = &[$(stringify!($name)),+];

            /// Returns all counters in a fixed order. Later versions append new ones.
            pub fn values(&self) -> Vec<u64> {
                vec![$(self.$name),+]
            }

            /// Returns the counts since `earlier`.
            pub fn difference(&self, earlier: &Counters) -> Counters {
                Counters { $($name: self.$name.saturating_sub(earlier.$name)),+ }
            }

            /// Returns counters with values in the order of [`Counters::values`]. Missing values are 0.
            #[doc(hidden)]
            pub fn from_values(values: &[u64]) -> Counters {
                let mut values = values.iter().copied();
                Counters { $($name: values.next().unwrap_or(0)),+ }
            }
        }

        impl CounterSet {
            pub(crate) fn read(&self) -> Counters {
                Counters { $($name: self.$name.get()),+ }
            }
        }
    };
}
