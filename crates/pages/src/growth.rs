//! Growth of the data file: zeroes are written in steps, ahead of the pages that need the space.
//!
//! A file that grows with each commit makes the filesystem write its metadata with each force. On ext4
//! without a journal, a power cut between those writes loses the whole file (docs/bugs-found.md). Bytes that
//! were written once have their blocks, so later writes there change only data.

use crate::changes::Image;
use std::ops::Range;

/// Minimum and maximum number of bytes of a step. In between, a step is a sixteenth of the file.
const STEPS: Range<u64> = 64 << 10..4 << 20;

/// Returns the end of a file of `len` bytes that grows by a step to hold `needed` bytes.
pub(crate) fn next_end(len: u64, needed: u64, page_size: u32) -> u64 {
    let step = (len / 16).clamp(STEPS.start, STEPS.end);
    let page_size = u64::from(page_size);
    needed.max(len).saturating_add(step) / page_size * page_size
}

/// Returns a page of zeroes for each page of `range`, whose bounds are page offsets.
pub(crate) fn zeroes(range: Range<u64>, page: &Image) -> impl Iterator<Item = (u64, Image)> {
    range.step_by(page.len()).map(|at| (at, page.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_follows_the_length() {
        assert_eq!(next_end(0, 4096, 4096), 4096 + (64 << 10));
        assert_eq!(next_end(32 << 20, 33 << 20, 4096), 35 << 20);
        assert_eq!(next_end(1 << 30, 1 << 30, 4096), (1 << 30) + (4 << 20));
        // The calculation does not overflow at the largest possible end of a file.
        let end = next_end(0, u64::MAX / 65536 * 65536 - 65536, 65536);
        assert!(end.is_multiple_of(65536));
    }

    #[test]
    fn zeroes_cover_the_range() {
        let page: Image = vec![0; 4096].into();
        let at: Vec<u64> = zeroes(8192..16384, &page).map(|(at, _)| at).collect();
        assert_eq!(at, [8192, 12288]);
        assert_eq!(zeroes(8192..8192, &page).count(), 0);
    }
}
