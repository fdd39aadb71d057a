//! How far a file goes, as far as durability has to know it.
//!
//! NTFS keeps two ends of a file: the end itself, and up to where it holds data (the *valid data
//! length*; behind it reads give zeroes). A flush of the data alone brings neither to the medium:
//! after a power cut bytes behind the old ends would be gone, though the flush had succeeded. So a
//! flush of data alone is only asked for where both ends were made durable before, and every other
//! one is a full flush.
//!
//! Shared by all openings of a file in this process: what one of them extends another may flush.

use logforce_device::FileIdentity;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, RwLock, Weak};

/// Those of the files that are open.
static OPEN: LazyLock<Mutex<HashMap<FileIdentity, Weak<Extent>>>> = LazyLock::new(Mutex::default);

/// The ends of one file.
#[derive(Debug, Default)]
pub struct Extent {
    /// The end of what was submitted, by any opening.
    submitted: AtomicU64,
    /// The end of what was written and completed, by any opening.
    written: AtomicU64,
    /// Up to here size and valid data length are durable.
    durable: AtomicU64,
    /// Read by what may extend the file, written while its size is set: setting the size of a file
    /// that has grown meanwhile would cut it.
    sizing: RwLock<()>,
}

impl Extent {
    /// That of the file `identity`, which is open, and so the same for all its openings.
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

    /// A write that ends at `end` is over, and its caller is about to know. (Also one that failed: any
    /// part of it may be there.)
    pub fn ended(&self, end: u64) {
        self.written.fetch_max(end, SeqCst);
    }

    /// Runs `set` if the file, `len` bytes long by `now`, is to be extended to `to`: nothing that
    /// was submitted reaches beyond that.
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

    /// Whether a flush of the data alone makes everything readable again that was written so far.
    pub fn is_flushed(&self) -> bool {
        self.written.load(SeqCst) <= self.durable.load(SeqCst)
    }

    /// What a full flush that begins now will cover, for [`flushed`](Self::flushed).
    pub fn before_flush(&self) -> u64 {
        self.written.load(SeqCst)
    }

    /// A full flush succeeded: everything that was written before it is durable, and what the
    /// system says is `valid`.
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
        // While the flush is under way.
        extent.ended(8192);
        extent.flushed(before, None);
        assert!(!extent.is_flushed(), "that flush did not cover it");
        extent.flushed(extent.before_flush(), None);
        assert!(extent.is_flushed());
        extent.ended(100);
        assert!(extent.is_flushed(), "overwritten in place");
        // A prepared file: the system says that all of it holds data.
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
        // Submitted, and not seen in the size yet.
        assert_eq!(extent.submitting(20000, || 7), 7);
        reserve(16384);
        assert_eq!(size.get(), 8192);
        reserve(20001);
        assert_eq!(size.get(), 20001);
    }
}
