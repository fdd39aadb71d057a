//! How the data file grows: by zeroes, written in steps ahead of what needs them.
//!
//! A file that grows with each commit makes the filesystem write its own records with each force, and
//! on ext4 without a journal a cut of power between those loses the whole file (docs/bugs-found.md).
//! What is written once has its blocks: later writes there change nothing but bytes.

use crate::changes::Image;
use std::ops::Range;

/// Bytes of a step: a sixteenth of what the file has, within these.
const STEPS: Range<u64> = 64 << 10..4 << 20;

/// Where a file of `len` bytes ends once it has grown by a step for `needed` bytes.
pub(crate) fn next_end(len: u64, needed: u64, page_size: u32) -> u64 {
    let step = (len / 16).clamp(STEPS.start, STEPS.end);
    let page_size = u64::from(page_size);
    needed.max(len).saturating_add(step) / page_size * page_size
}

/// Zeroes for all of `range`, whose bounds are offsets of pages, a page at a time.
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
        // Nothing overflows at the end of what a file can be.
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
