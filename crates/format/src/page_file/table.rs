//! Node of the page table of a copy-on-write file, which maps each page to its place.
//!
//! The table is a radix tree over page numbers. A node fills one place and has [`fan_out`] entries of 16
//! bytes. Entries of the lowest level name the places of pages, those above name nodes. A node's checksum is
//! in the entry that names it, and the root's in the header. So a node is never mistaken for another one or
//! for an older state of itself.

use super::header::PAGE_DATA_OFFSET;
use crate::bytes::{are_zero, get_u32, get_u64, put};

/// Length of an entry of a node, in bytes.
pub const TABLE_ENTRY_LEN: usize = 16;

/// Location of a page or a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TableEntry {
    /// Number of the place: place n begins at [`PAGE_DATA_OFFSET`] + n × page size.
    pub place: u64,
    /// CRC-32C of the bytes; 0 for a page of a file without checksums.
    pub crc: u32,
}

/// Reason why a node of the page table is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum TableReject {
    /// The length is not a whole number of entries, or not that of a page.
    #[error("a node of another length")]
    Length,
    /// Reserved bytes, or bytes of an entry that names nothing, are not zero.
    #[error("reserved bytes in use")]
    Reserved,
    /// An entry names a place that no page or node can have.
    #[error("a place beyond the places in use")]
    Place,
}

crate::names::names!(TableReject: Length, Reserved, Place);

/// Returns the number of entries of a node for this page size.
pub fn fan_out(page_size: u32) -> u64 {
    (u64::from(page_size) / TABLE_ENTRY_LEN as u64).max(2)
}

/// Returns the number of levels that a table needs to name this page.
pub fn table_depth(page_size: u32, page: u64) -> u32 {
    let bits = u64::BITS - page.leading_zeros();
    bits.div_ceil(fan_out(page_size).ilog2()).max(1)
}

/// Returns the index of the entry that leads to `page` in a node of the given level; level 0 is the lowest.
pub fn table_index(page_size: u32, page: u64, level: u32) -> usize {
    let bits = fan_out(page_size).ilog2();
    let rest = page.checked_shr(bits * level).unwrap_or(0);
    (rest & (fan_out(page_size) - 1)) as usize
}

/// Returns the offset of a place in the file, in bytes. `None` if that is impossible.
pub fn place_offset(page_size: u32, place: u64) -> Option<u64> {
    place
        .checked_mul(page_size.into())?
        .checked_add(PAGE_DATA_OFFSET)
}

/// Returns the checksum of a page or of a node.
pub fn place_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// Checks that the bytes can be a node whose places are all below `places_end`. The caller checks the
/// checksum.
pub fn check_table_node(bytes: &[u8], page_size: u32, places_end: u64) -> Result<(), TableReject> {
    if bytes.len() != page_size as usize || bytes.is_empty() {
        return Err(TableReject::Length);
    }
    let (entries, rest) = bytes.as_chunks::<TABLE_ENTRY_LEN>();
    if !rest.is_empty() {
        return Err(TableReject::Length);
    }
    for entry in entries {
        let (named, reserved) = (get_u64(entry, 0), &entry[12..]);
        if !are_zero(reserved) || (named == 0 && !are_zero(entry)) {
            return Err(TableReject::Reserved);
        }
        if named > places_end {
            return Err(TableReject::Place);
        }
    }
    Ok(())
}

/// Returns an entry of a node; `None` if it names nothing, or if there is no such entry.
pub fn table_entry(node: &[u8], index: usize) -> Option<TableEntry> {
    let (entries, _) = node.as_chunks::<TABLE_ENTRY_LEN>();
    let entry = entries.get(index)?;
    let place = get_u64(entry, 0).checked_sub(1)?;
    let crc = get_u32(entry, 8);
    Some(TableEntry { place, crc })
}

/// Returns the entries of a node that name something, each with its index.
pub fn table_entries(node: &[u8]) -> impl Iterator<Item = (usize, TableEntry)> + '_ {
    let count = node.len() / TABLE_ENTRY_LEN;
    (0..count).filter_map(|index| Some((index, table_entry(node, index)?)))
}

/// Sets an entry of a node, which must have it.
pub fn set_table_entry(node: &mut [u8], index: usize, entry: Option<TableEntry>) {
    let mut b = [0; TABLE_ENTRY_LEN];
    if let Some(entry) = entry {
        put(&mut b, 0, &(entry.place + 1).to_le_bytes());
        put(&mut b, 8, &entry.crc.to_le_bytes());
    }
    put(node, index * TABLE_ENTRY_LEN, &b);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u32 = 512;

    fn entry(place: u64) -> Option<TableEntry> {
        let crc = place as u32 ^ 7;
        Some(TableEntry { place, crc })
    }

    #[test]
    fn entries_round_trip_and_lie_where_they_should() {
        let mut node = vec![0; SIZE as usize];
        set_table_entry(&mut node, 0, entry(0));
        set_table_entry(&mut node, 31, entry(41));
        assert_eq!(node[..8], 1u64.to_le_bytes());
        assert_eq!(node[31 * 16..][..8], 42u64.to_le_bytes());
        assert_eq!(node[31 * 16 + 8..][..4], (41u32 ^ 7).to_le_bytes());
        assert_eq!(check_table_node(&node, SIZE, 42), Ok(()));
        assert_eq!(table_entry(&node, 0), entry(0));
        assert_eq!(table_entry(&node, 1), None);
        assert_eq!(table_entry(&node, 31), entry(41));
        assert_eq!(table_entry(&node, 32), None);
        let all: Vec<_> = table_entries(&node).collect();
        assert_eq!(all, [(0, entry(0).unwrap()), (31, entry(41).unwrap())]);
        set_table_entry(&mut node, 31, None);
        set_table_entry(&mut node, 0, None);
        assert!(node.iter().all(|b| *b == 0));
    }

    #[test]
    fn what_cannot_be_a_node_is_refused() {
        let mut node = vec![0; SIZE as usize];
        set_table_entry(&mut node, 3, entry(41));
        let check = |node: &[u8], end| check_table_node(node, SIZE, end);
        assert_eq!(check(&node, 41), Err(TableReject::Place));
        assert_eq!(check(&node[..496], 42), Err(TableReject::Length));
        assert_eq!(check(&node[..500], 42), Err(TableReject::Length));
        assert_eq!(check(&[], 42), Err(TableReject::Length));
        // A flipped bit is in reserved bytes, names another place, or is in the checksum, which is checked
        // elsewhere.
        for bit in 0..node.len() * 8 {
            let mut forged = node.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            let (entry, byte) = (bit / 128, bit / 8 % 16);
            match check(&forged, 42) {
                Ok(()) => assert!(byte < 8 || (entry == 3 && byte < 12), "bit {bit}"),
                Err(TableReject::Reserved) => assert!(byte >= 8, "bit {bit}"),
                Err(e) => assert!(byte < 8, "bit {bit}: {e}"),
            }
        }
    }

    #[test]
    fn each_page_has_a_path_of_its_own() {
        for page_size in [512, 4096, 64 << 10] {
            let fan = fan_out(page_size);
            assert_eq!(fan, u64::from(page_size) / 16);
            let numbers = [0, 1, fan - 1, fan, fan * fan - 1, fan * fan, 1 << 40];
            for page in numbers {
                let depth = table_depth(page_size, page);
                let mut back = 0;
                for level in (0..depth).rev() {
                    back = back * fan + table_index(page_size, page, level) as u64;
                }
                assert_eq!(back, page, "{page_size}");
                assert!(depth == 1 || page >= fan.pow(depth - 1));
            }
            assert!(table_depth(page_size, (1 << 48) - 1) <= 16);
            assert!(table_depth(page_size, u64::MAX) <= 16);
        }
    }

    #[test]
    fn no_place_overflows() {
        assert_eq!(place_offset(512, 2), Some(PAGE_DATA_OFFSET + 1024));
        assert_eq!(place_offset(64 << 10, u64::MAX / 2), None);
        assert_eq!(place_offset(512, u64::MAX / 512), None);
    }
}
