//! The counters, their snapshot and their names, from one list.

use std::sync::atomic::{AtomicU64, Ordering::*};

/// A number that only grows.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// From any thread.
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    /// Adds to a counter that changes only under the log's mutex, without an atomic addition.
    pub(crate) fn add_locked(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        /// The counters.
        #[derive(Default)]
        pub(crate) struct CounterSet {
            $(pub(crate) $name: Counter,)+
        }

        /// The counts since the log was opened.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        #[non_exhaustive]
        pub struct Counters {
            $($(#[$doc])+ pub $name: u64,)+
        }

        impl Counters {
            /// The names of all counters, in the order of [`Counters::values`].
            pub const NAMES: &[&str] = &[$(stringify!($name)),+];

            /// All counters in a fixed order; later versions append to it.
            pub fn values(&self) -> Vec<u64> {
                vec![$(self.$name),+]
            }

            /// The counts since `earlier`.
            pub fn difference(&self, earlier: &Counters) -> Counters {
                Counters { $($name: self.$name.saturating_sub(earlier.$name)),+ }
            }

            /// From values in the same order; those that are missing are 0.
            pub(crate) fn from_values(values: &[u64]) -> Counters {
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

// The order is that of `docs/format.md`.
counters! {
    /// Atomic appends that were accepted.
    appends,
    /// Records that were accepted.
    records,
    /// Their bytes, as the caller gave them.
    record_bytes,
    /// Batches that were written, those without records included.
    batches,
    /// Their bytes: headers, payload and padding.
    batch_bytes,
    /// Bytes of padding among them.
    padding_bytes,
    /// Device writes of batches.
    writes,
    /// Write-throughs among them.
    through_writes,
    /// Barriers on segments, for commits.
    barriers,
    /// Jobs that made records durable on request.
    forces,
    /// Jobs that wrote a stamp.
    stamps,
    /// Commits that waited until they were durable.
    commits_force,
    /// Commits that waited until they were written.
    commits_write,
    /// Commits that waited for nothing.
    commits_interval,
    /// Submissions.
    submits,
    /// Appends that had to wait for buffer space.
    buffer_waits,
    /// Appends that had to wait for prepared space.
    segment_waits,
    /// Segments that were prepared.
    segments_prepared,
    /// Those among them that reused the file of a truncated segment.
    segments_recycled,
    /// Device writes of all kinds: batches, segments being prepared, the control file.
    device_writes,
    /// Their bytes.
    device_write_bytes,
    /// Barriers of all kinds.
    device_barriers,
    /// How often the directory was synced.
    directory_syncs,
    /// Segments that were prepared without filling them with zeroes: everywhere where the filesystem
    /// does not overwrite in place, else while appends come in bulk.
    segments_unfilled,
}
