//! Size of the next segment.

use crate::storage::builder::Spare;
use logforce_device::sync::Mutex;
use logforce_format::{Lsn, SegmentHeader};
use std::sync::PoisonError;
use std::time::Duration;

/// Time within which a used-up segment is followed by one of twice the size.
const SOON: Duration = Duration::from_secs(4);
/// Approximate minimum number of segments of a log, so that a truncation frees most of the space below it.
const PARTS: u64 = 4;

/// Sizes of new segments. They grow with the size of the log and with the pace of the appends, and shrink
/// again after a truncation.
pub(crate) struct SegmentSizes {
    /// Smallest size, bytes.
    pub(crate) first: u64,
    /// Largest size, bytes.
    pub(crate) largest: u64,
    /// Write unit of new segments, bytes.
    unit: u32,
    /// Size of the segment that was prepared last, and the time by the log's clock.
    last: Mutex<Option<(u64, Duration)>>,
}

impl SegmentSizes {
    pub(crate) fn new(first: u64, largest: u64, unit: u32) -> Self {
        SegmentSizes {
            first,
            largest,
            unit,
            last: Mutex::new(None),
        }
    }

    /// Returns the size of the next segment, for a log with segments of `held` bytes in total, while appends
    /// wait for `requested` bytes.
    pub(crate) fn next(&self, held: u64, requested: u64, now: Duration) -> u64 {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let pace = match last {
            Some((len, at)) if now.saturating_sub(at) < SOON => 2 * len,
            _ => 0,
        };
        let wanted = (held / PARTS).max(requested).max(pace);
        let mut len = self.first;
        while len < wanted && len < self.largest {
            len *= 2;
        }
        len.min(self.largest)
    }

    /// Registers that a segment of `len` bytes was prepared.
    pub(crate) fn prepared(&self, len: u64, now: Duration) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((len, now));
    }

    /// Returns true if a file of `len` bytes can be the next segment, which should have `wanted` bytes.
    pub(crate) fn fits(&self, len: u64, wanted: u64) -> bool {
        // Spares may be from an opening with other options.
        (wanted..=self.largest).contains(&len)
            && SegmentHeader::geometry_is_valid(Lsn::ORIGIN, len, self.unit)
    }

    /// Takes the smallest spare that can be the next segment.
    pub(crate) fn take_spare(&self, spares: &mut Vec<Spare>, wanted: u64) -> Option<Spare> {
        let fitting = spares.iter().enumerate();
        let fitting = fitting.filter(|(_, s)| self.fits(s.len, wanted));
        let (at, _) = fitting.min_by_key(|(_, s)| s.len)?;
        Some(spares.swap_remove(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const NOW: Duration = Duration::from_secs(100);

    fn sizes() -> SegmentSizes {
        SegmentSizes::new(256 * KIB, 64 << 20, 4096)
    }

    #[test]
    fn segments_grow_with_the_log_and_shrink_with_it() {
        let sizes = sizes();
        let next = |held| sizes.next(held, 0, NOW);
        assert_eq!(next(0), 256 * KIB);
        assert_eq!(next(1 << 20), 256 * KIB);
        assert_eq!(next(2 << 20), 512 * KIB);
        assert_eq!(next(100 << 20), 32 << 20);
        assert_eq!(next(10 << 30), 64 << 20);
    }

    #[test]
    fn segments_double_while_they_are_used_up_soon() {
        let sizes = sizes();
        sizes.prepared(256 * KIB, NOW);
        assert_eq!(sizes.next(0, 0, NOW + SOON / 2), 512 * KIB);
        assert_eq!(sizes.next(0, 0, NOW + SOON), 256 * KIB);
        sizes.prepared(64 << 20, NOW);
        assert_eq!(sizes.next(0, 0, NOW), 64 << 20);
    }

    #[test]
    fn a_large_append_gets_a_segment_for_all_of_it() {
        assert_eq!(sizes().next(0, 3 << 20, NOW), 4 << 20);
        assert_eq!(sizes().next(0, 1 << 40, NOW), 64 << 20);
        let one_size = SegmentSizes::new(80 * KIB, 80 * KIB, 4096);
        assert_eq!(one_size.next(1 << 30, 1 << 30, NOW), 80 * KIB);
    }

    #[test]
    fn the_smallest_spare_that_fits_is_used() {
        let sizes = SegmentSizes::new(64 * KIB, 1 << 20, 16384);
        let spare = |len: u64| Spare {
            name: len.to_string(),
            len,
            unwritten: false,
        };
        let mut spares: Vec<Spare> = [2 << 20, 512 * KIB, 64 * KIB, 132 * KIB, 128 * KIB]
            .map(spare)
            .into();
        let mut take = |wanted| sizes.take_spare(&mut spares, wanted).map(|s| s.len);
        assert_eq!(take(128 * KIB), Some(128 * KIB));
        assert_eq!(
            take(128 * KIB),
            Some(512 * KIB),
            "132 KiB is not a multiple of the unit"
        );
        assert_eq!(take(128 * KIB), None, "too small or too large");
        assert_eq!(take(64 * KIB), Some(64 * KIB));
    }
}
