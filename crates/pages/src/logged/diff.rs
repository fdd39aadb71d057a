//! What has changed of a page.

use std::ops::Range;

/// Changed bytes closer together than this are one range: its header would take as much.
const GAP: usize = 16;
/// How many bytes are compared at once.
const STEP: usize = 8;

/// The ranges in which two pages of the same size differ, ascending and apart from each other.
pub(super) fn changed(before: &[u8], after: &[u8]) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut add = |at: usize| match ranges.last_mut() {
        Some(last) if at - last.end < GAP => last.end = at + 1,
        _ => ranges.push(at..at + 1),
    };
    let steps = before.chunks(STEP).zip(after.chunks(STEP));
    for (n, (a, b)) in steps.enumerate() {
        if a != b {
            let differs = a.iter().zip(b).enumerate().filter(|(_, (a, b))| a != b);
            differs.for_each(|(i, _)| add(n * STEP + i));
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(after: impl Fn(&mut [u8])) -> Vec<(usize, usize)> {
        let before = vec![7; 512];
        let mut page = before.clone();
        after(&mut page);
        let ranges = changed(&before, &page);
        let mut rebuilt = before;
        for r in &ranges {
            rebuilt[r.clone()].copy_from_slice(&page[r.clone()]);
        }
        assert_eq!(rebuilt, page);
        ranges.iter().map(|r| (r.start, r.end)).collect()
    }

    #[test]
    fn ranges_rebuild_the_page_and_near_ones_are_one() {
        assert_eq!(ranges(|_| ()), []);
        assert_eq!(ranges(|p| p[0] = 1), [(0, 1)]);
        assert_eq!(ranges(|p| p[511] = 1), [(511, 512)]);
        assert_eq!(ranges(|p| p.fill(1)), [(0, 512)]);
        let near = ranges(|p| (p[100], p[116]) = (1, 1));
        assert_eq!(near, [(100, 117)]);
        let apart = ranges(|p| (p[100], p[117]) = (1, 1));
        assert_eq!(apart, [(100, 101), (117, 118)]);
    }
}
