//! Limits of keys, values, pages and levels.

/// Longest value, bytes.
pub const MAX_VALUE: usize = 64 << 10;

/// Supported page sizes, bytes: offsets within a page have 16 bits.
pub(crate) const PAGE_SIZES: std::ops::RangeInclusive<u32> = 512..=32 << 10;

/// Largest number of levels, including the leaves. Every inner page has at least two children, so the
/// page numbers would run out first.
pub(crate) const MAX_HEIGHT: u8 = 64;

/// Returns the length of the longest cell, bytes: four fit into a page, with their slots and the page's
/// header.
pub(crate) const fn max_cell(page_size: usize) -> usize {
    page_size / 4 - 6
}

/// Returns the length of the longest key for pages of `page_size` bytes. The cell of such a key has
/// space for the page number of a value in a chain.
pub const fn max_key(page_size: usize) -> usize {
    max_cell(page_size) - 14
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{HEADER, SLOT};

    #[test]
    fn four_cells_fit_into_a_page() {
        for size in [512, 4096, 32 << 10] {
            assert!(HEADER + 4 * (SLOT + max_cell(size)) <= size);
        }
        assert_eq!(max_key(4096), 1004);
    }
}
