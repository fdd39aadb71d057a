//! Differences between two versions of a page.

use std::ops::Range;

/// Number of unchanged bytes below which two changes are one range, because a second range needs a header.
const GAP: usize = 16;
/// Bytes of the header of a range in a redo record.
const HEADER: usize = 8;
/// Number of bytes that are compared at once. It is below the gap, so changes within a word are one range.
const WORD: usize = size_of::<u64>();

/// Returns the ranges in which two pages of the same size differ, ascending and separate. Returns `None`, and
/// stops comparing, if they would take more than `most` bytes in a redo record.
pub(super) fn changed(before: &[u8], after: &[u8], most: usize) -> Option<Vec<Range<usize>>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    // Bytes of the ranges, without the last one, which may still grow.
    let mut len = 0;
    let (words_before, rest_before) = before.as_chunks::<WORD>();
    let (words_after, rest_after) = after.as_chunks::<WORD>();
    let words = words_before.iter().zip(words_after).enumerate();
    let differing = words.filter_map(|(n, (a, b))| {
        let differs = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        let first = differs.trailing_zeros() as usize / 8;
        let end = WORD - differs.leading_zeros() as usize / 8;
        (differs != 0).then(|| n * WORD + first..n * WORD + end)
    });
    let rest = before.len() - rest_before.len();
    let behind = (rest..).zip(rest_before.iter().zip(rest_after));
    let behind = behind.filter(|(_, (a, b))| a != b);
    let behind = behind.map(|(at, _)| at..at + 1);
    for range in differing.chain(behind) {
        match ranges.last_mut() {
            Some(last) if range.start - last.end < GAP => last.end = range.end,
            last => {
                len += last.map_or(0, |last| HEADER + last.len());
                ranges.push(range);
            }
        }
        let last = ranges.last().map_or(0, |last| HEADER + last.len());
        if len + last > most {
            return None;
        }
    }
    Some(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use logforce_format::RedoWriter;

    fn ranges_of(len: usize, after: impl Fn(&mut [u8])) -> Vec<(usize, usize)> {
        let before = vec![7; len];
        let mut page = before.clone();
        after(&mut page);
        let ranges = changed(&before, &page, usize::MAX).unwrap();
        let mut rebuilt = before.clone();
        for r in &ranges {
            rebuilt[r.clone()].copy_from_slice(&page[r.clone()]);
        }
        assert_eq!(rebuilt, page);
        // The bytes that the ranges take in a record are enough, and one fewer is not.
        let len = RedoWriter::ranges_len(&ranges) - RedoWriter::ranges_len(&[]);
        assert_eq!(changed(&before, &page, len).as_ref(), Some(&ranges));
        if len > 0 {
            assert_eq!(changed(&before, &page, len - 1), None);
        }
        ranges.iter().map(|r| (r.start, r.end)).collect()
    }

    fn ranges(after: impl Fn(&mut [u8])) -> Vec<(usize, usize)> {
        ranges_of(512, after)
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
        let within = ranges(|p| (p[9], p[14]) = (1, 1));
        assert_eq!(within, [(9, 15)]);
        let behind_the_words = ranges_of(21, |p| (p[2], p[20]) = (1, 1));
        assert_eq!(behind_the_words, [(2, 3), (20, 21)]);
    }

    /// Comparing words gives the same ranges as comparing single bytes.
    #[test]
    fn words_give_what_bytes_give() {
        for seed in 0..2000u64 {
            let mut bits = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let before = [7u8; 128];
            let mut after = before;
            for byte in &mut after {
                bits ^= bits << 13;
                bits ^= bits >> 7;
                bits ^= bits << 17;
                *byte ^= u8::from(bits % (1 + seed % 40) == 0);
            }
            let mut expected: Vec<Range<usize>> = Vec::new();
            for at in (0..128).filter(|at| before[*at] != after[*at]) {
                match expected.last_mut() {
                    Some(last) if at - last.end < GAP => last.end = at + 1,
                    _ => expected.push(at..at + 1),
                }
            }
            assert_eq!(
                changed(&before, &after, usize::MAX),
                Some(expected),
                "{seed}"
            );
        }
    }
}
