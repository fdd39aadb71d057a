//! End of a file, as far as durability depends on it.
//!
//! NTFS keeps two ends of a file: its size, and the end of its data (the *valid data length*; reads behind it
//! return zeroes). A flush of the data alone makes neither durable. After a power cut bytes behind the old
//! ends would be lost, although the flush had succeeded. So data alone is flushed only if both ends were made
//! durable before; otherwise the flush is a full one.
//!
//! All openings of a file in this process share its extent, because one of them may flush what another one
//! wrote.

use logforce_device::FileIdentity;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, RwLock, Weak};

/// Extents of the files that are open.
static OPEN: LazyLock<Mutex<HashMap<FileIdentity, Weak<Extent>>>> = LazyLock::new(Mutex::default);

/// Ends of one file, in bytes.
#[derive(Debug, Default)]
pub struct Extent {
    /// End of the submitted writes of all openings.
    submitted: AtomicU64,
    /// End of the completed writes of all openings.
    written: AtomicU64,
    /// End up to which size and valid data length are durable.
    durable: AtomicU64,
    /// Locked for reading by submissions that may extend the file, and for writing while the size is set.
    /// Setting the size of a file that has grown meanwhile would truncate it.
    sizing: RwLock<()>,
}

impl Extent {
    /// Returns the extent of the open file `identity`. All openings of the file share it.
    pub fn of(identity: FileIdentity) -> Arc<Extent> {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(extent) = open.get(&identity).and_then(Weak::upgrade) {
            return extent;
        }
        open.retain(|_, extent| extent.strong_count() > 0);
        let extent = Arc::new(Extent::default());
        open.insert(identity, Arc::downgrade(&extent));
        extent
    }

    /// Runs `start`, which submits a write that ends at `end`.
    pub fn submitting<T>(&self, end: u64, start: impl FnOnce() -> T) -> T {
        if end <= self.submitted.load(SeqCst) {
            return start();
        }
        let _not_sized = self.sizing.read().unwrap_or_else(|e| e.into_inner());
        self.submitted.fetch_max(end, SeqCst);
        start()
    }

    /// Records that a write up to `end` has completed. Called before the caller learns of it, also for a
    /// failed write, because any part of it may have been written.
    pub fn ended(&self, end: u64) {
        self.written.fetch_max(end, SeqCst);
    }

    /// Runs `set` to extend the file to `to` bytes. Does nothing if the file, whose size `now` returns, or a
    /// submitted write already reaches that far.
    pub fn sizing<E>(
        &self,
        to: u64,
        now: impl FnOnce() -> Result<u64, E>,
        set: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let _alone = self.sizing.write().unwrap_or_else(|e| e.into_inner());
        if to > now()? && to > self.submitted.load(SeqCst) {
            set()?;
        }
        Ok(())
    }

    /// Returns true if a flush of the data alone makes everything durable that was written so far.
    pub fn is_flushed(&self) -> bool {
        self.written.load(SeqCst) <= self.durable.load(SeqCst)
    }

    /// Returns the end that a full flush starting now will cover, for [`flushed`](Self::flushed).
    pub fn before_flush(&self) -> u64 {
        self.written.load(SeqCst)
    }

    /// Records that a full flush succeeded. Everything written before it is durable, and the file up to
    /// `valid`, the valid data length that the system reported.
    pub fn flushed(&self, before: u64, valid: Option<u64>) {
        self.durable
            .fetch_max(before.max(valid.unwrap_or(0)), SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    #[test]
    fn data_alone_is_flushed_only_where_the_ends_are_durable() {
        let extent = Extent::default();
        assert!(extent.is_flushed(), "nothing was written");
        extent.ended(4096);
        assert!(!extent.is_flushed());
        let before = extent.before_flush();
        // This write completes during the flush.
        extent.ended(8192);
        extent.flushed(before, None);
        assert!(!extent.is_flushed(), "that flush did not cover it");
        extent.flushed(extent.before_flush(), None);
        assert!(extent.is_flushed());
        extent.ended(100);
        assert!(extent.is_flushed(), "overwritten in place");
        // A prepared file: the system reports that all of it holds data.
        extent.flushed(extent.before_flush(), Some(1 << 20));
        extent.ended(1 << 20);
        assert!(extent.is_flushed());
        extent.ended((1 << 20) + 1);
        assert!(!extent.is_flushed());
    }

    #[test]
    fn a_file_that_has_grown_is_not_cut() {
        let extent = Extent::default();
        let size = std::cell::Cell::new(0);
        let reserve = |to: u64| {
            let set = || {
                size.set(to);
                Ok::<(), Infallible>(())
            };
            extent.sizing(to, || Ok(size.get()), set).unwrap();
        };
        reserve(8192);
        assert_eq!(size.get(), 8192);
        reserve(4096);
        assert_eq!(size.get(), 8192);
        // A write that was submitted and does not show in the size yet.
        assert_eq!(extent.submitting(20000, || 7), 7);
        reserve(16384);
        assert_eq!(size.get(), 8192);
        reserve(20001);
        assert_eq!(size.get(), 20001);
    }
}
