//! How much fits into what.

/// The longest value, bytes.
pub const MAX_VALUE: usize = 64 << 10;

/// Page sizes that a tree takes, bytes: offsets within a page have 16 bits.
pub(crate) const PAGE_SIZES: std::ops::RangeInclusive<u32> = 512..=32 << 10;

/// Levels of a tree, the leaves' included. A page has two children at least, so pages would run out
/// first.
pub(crate) const MAX_HEIGHT: u8 = 64;

/// The longest cell: four fit into a page, with their slots and the page's header.
pub(crate) const fn max_cell(page_size: usize) -> usize {
    page_size / 4 - 6
}

/// The longest key with pages of so many bytes. Such a key's cell has room for the page number of a
/// value that lies elsewhere.
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
