//! The counters, their snapshot and their names, from one list.

use std::sync::atomic::{AtomicU64, Ordering::*};

/// A counter that only grows.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`, from any thread.
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    /// Adds `n` without an atomic addition, to a counter that changes only under the log's mutex.
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

        /// Counts since the log was opened.
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

// The order is documented in `docs/format.md`.
counters! {
    /// Atomic appends that were accepted.
    appends,
    /// Records that were accepted.
    records,
    /// Bytes of the accepted records, without frame headers.
    record_bytes,
    /// Batches that were written, including those without records.
    batches,
    /// Bytes of the written batches: headers, payload and padding.
    batch_bytes,
    /// Bytes of padding in the written batches.
    padding_bytes,
    /// Device writes of batches.
    writes,
    /// Device writes of batches by write-through.
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
    /// Commits that did not wait.
    commits_interval,
    /// Submissions.
    submits,
    /// Appends that had to wait for buffer space.
    buffer_waits,
    /// Appends that had to wait for prepared space.
    segment_waits,
    /// Segments that were prepared.
    segments_prepared,
    /// Segments that were prepared from the file of a truncated segment.
    segments_recycled,
    /// Device writes of all kinds: batches, segments being prepared, the control file.
    device_writes,
    /// Bytes of these writes.
    device_write_bytes,
    /// Barriers of all kinds.
    device_barriers,
    /// Syncs of the directory.
    directory_syncs,
    /// Segments that were prepared without filling them with zeroes: all segments if the filesystem does not
    /// overwrite in place, else those prepared while forces are large.
    segments_unfilled,
    /// Commits that waited until the replica had confirmed them.
    commits_replicated,
    /// Moves of the front that were held for a replica which had used three quarters of its limit.
    replica_alarms,
}
