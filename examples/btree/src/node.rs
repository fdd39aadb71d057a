//! Leaves and inner pages: cells in the order of their keys.
//!
//! ```text
//! 0   1      2      4            6        8            16
//! ┌────┬──────┬──────┬────────────┬────────┬────────────┬───────┬─────┬──────┬───────┐
//! │kind│level │count │cells begin │garbage │first child │ slots │  …  │ cell │ cell… │
//! └────┴──────┴──────┴────────────┴────────┴────────────┴───────┴─────┴──────┴───────┘
//! leaf cell:  key length u16, value length u32, key, value — or the first page of its chain
//! inner cell: key length u16, child u64, key
//! ```
//!
//! A new cell is placed below the others, and only slots (2 bytes each) move: a commit logs only the
//! bytes that differ. The key of an inner page's cell is a lower bound for all keys below its child.

use crate::bytes::{put, u16_at, u32_at, u64_at};
use crate::error::{Error, Result};
use std::cmp::Ordering;
use std::ops::Range;

/// Size of the header before the slots, bytes.
pub(crate) const HEADER: usize = 16;
/// Size of a slot, bytes.
pub(crate) const SLOT: usize = 2;

pub(crate) const LEAF: u8 = 1;
pub(crate) const INNER: u8 = 2;

/// Flag in a value's length: the value is in a chain of pages.
const ELSEWHERE: u32 = 1 << 31;
/// Bytes of a leaf cell before the key, and of an inner cell.
pub(crate) const LEAF_CELL: usize = 6;
pub(crate) const INNER_CELL: usize = 10;

/// Location of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ValueAt {
    /// In the page, at these bytes.
    Here(Range<usize>),
    /// In a chain of pages that begins with this one.
    Chain { first: u64, len: usize },
}

/// A leaf or an inner page, for reading.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    page: u64,
    bytes: &'a [u8],
    level: u8,
    count: usize,
}

impl<'a> Node<'a> {
    /// Parses the page as a node of this level, 0 for a leaf.
    pub(crate) fn parse(page: u64, bytes: &'a [u8], level: u8) -> Result<Node<'a>> {
        let node = Node::parse_any(page, bytes)?;
        if node.level != level {
            return Err(node.corrupt(format!(
                "its level is {}, but it is used at level {level}",
                node.level
            )));
        }
        Ok(node)
    }

    /// Parses the page as a node of any level.
    pub(crate) fn parse_any(page: u64, bytes: &'a [u8]) -> Result<Node<'a>> {
        let (Some(kind), Some(level)) = (bytes.first(), bytes.get(1)) else {
            return Err(Error::corrupt(page, "it is empty"));
        };
        let of_kind = match *level {
            0 => LEAF,
            _ => INNER,
        };
        if *kind != of_kind {
            return Err(Error::corrupt(
                page,
                format!("it is not a node: kind {kind}, level {level}"),
            ));
        }
        let count = usize::from(u16_at(bytes, 2).unwrap_or(0));
        let node = Node {
            page,
            bytes,
            level: *level,
            count,
        };
        let cells = node.cells_begin();
        let is_whole = HEADER + SLOT * count <= cells
            && cells <= bytes.len()
            && node.garbage() <= bytes.len() - cells;
        match is_whole {
            true => Ok(node),
            false => Err(node.corrupt(format!(
                "{count} cells from byte {cells} on, {} bytes of them unused",
                node.garbage()
            ))),
        }
    }

    pub(crate) fn corrupt(&self, what: impl Into<String>) -> Error {
        Error::corrupt(self.page, what)
    }

    /// Returns the page number.
    pub(crate) fn number(&self) -> u64 {
        self.page
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn level(&self) -> u8 {
        self.level
    }

    pub(crate) fn is_leaf(&self) -> bool {
        self.level == 0
    }

    fn cells_begin(&self) -> usize {
        usize::from(u16_at(self.bytes, 4).unwrap_or(0))
    }

    fn garbage(&self) -> usize {
        usize::from(u16_at(self.bytes, 6).unwrap_or(0))
    }

    /// Returns the bytes of slots and live cells.
    pub(crate) fn used(&self) -> usize {
        SLOT * self.count + self.bytes.len() - self.cells_begin() - self.garbage()
    }

    /// Returns the bytes between the slots and the cells.
    fn gap(&self) -> usize {
        self.cells_begin() - HEADER - SLOT * self.count
    }

    fn bad_cell(&self, i: usize) -> Error {
        self.corrupt(format!("cell {i} is outside the page"))
    }

    /// Returns the offset of a cell.
    fn slot(&self, i: usize) -> Option<usize> {
        if i >= self.count {
            return None;
        }
        u16_at(self.bytes, HEADER + SLOT * i).map(usize::from)
    }

    fn key_at(&self, i: usize) -> Option<Range<usize>> {
        let at = self.slot(i)?;
        let len = usize::from(u16_at(self.bytes, at)?);
        let start = at
            + match self.is_leaf() {
                true => LEAF_CELL,
                false => INNER_CELL,
            };
        (start + len <= self.bytes.len()).then_some(start..start + len)
    }

    /// Returns the range of a cell's key within the page.
    pub(crate) fn key_range(&self, i: usize) -> Result<Range<usize>> {
        self.key_at(i).ok_or_else(|| self.bad_cell(i))
    }

    /// Returns the key of a cell.
    pub(crate) fn key(&self, i: usize) -> Result<&'a [u8]> {
        Ok(&self.bytes[self.key_range(i)?])
    }

    /// Returns the range of a cell within the page.
    pub(crate) fn cell_range(&self, i: usize) -> Result<Range<usize>> {
        let range = || {
            let start = self.slot(i)?;
            let cell = self.bytes.get(start..)?;
            let key = usize::from(u16_at(cell, 0)?);
            let len = match self.is_leaf() {
                false => INNER_CELL + key,
                true => match u32_at(cell, 2)? {
                    len if len & ELSEWHERE != 0 => LEAF_CELL + key + 8,
                    len => LEAF_CELL + key + len as usize,
                },
            };
            let is_below_slots = start < self.cells_begin();
            (len <= cell.len() && !is_below_slots).then_some(start..start + len)
        };
        range().ok_or_else(|| self.bad_cell(i))
    }

    pub(crate) fn cell(&self, i: usize) -> Result<&'a [u8]> {
        Ok(&self.bytes[self.cell_range(i)?])
    }

    /// Returns the location of the value of a leaf's cell.
    pub(crate) fn value(&self, i: usize) -> Result<ValueAt> {
        let range = self.cell_range(i)?;
        let cell = &self.bytes[range.clone()];
        let value = || {
            let key = usize::from(u16_at(cell, 0)?);
            let len = u32_at(cell, 2)?;
            Some(match len & ELSEWHERE {
                0 => ValueAt::Here(range.start + LEAF_CELL + key..range.end),
                _ => ValueAt::Chain {
                    first: u64_at(cell, LEAF_CELL + key)?,
                    len: (len & !ELSEWHERE) as usize,
                },
            })
        };
        value().ok_or_else(|| self.bad_cell(i))
    }

    /// Returns an inner page's child below cell `i - 1`; for 0, the first child.
    pub(crate) fn child(&self, i: usize) -> Result<u64> {
        let child = match i.checked_sub(1) {
            None => u64_at(self.bytes, 8),
            Some(i) => self.slot(i).and_then(|at| u64_at(self.bytes, at + 2)),
        };
        child.ok_or_else(|| self.bad_cell(i))
    }

    /// Returns the first cell whose key is not below `key`, and whether its key is equal.
    pub(crate) fn find(&self, key: &[u8]) -> Result<(usize, bool)> {
        let (mut low, mut high) = (0, self.count);
        let head = head_of(key);
        while low < high {
            let middle = (low + high) / 2;
            match compare(self.key(middle)?, key, head) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok((middle, true)),
                Ordering::Greater => high = middle,
            }
        }
        Ok((low, false))
    }

    /// Returns the index of an inner page's child that leads to `key`.
    pub(crate) fn child_for(&self, key: &[u8]) -> Result<usize> {
        let (at, is_equal) = self.find(key)?;
        Ok(at + usize::from(is_equal))
    }
}

/// Returns the first bytes of a key as a number with the same order.
fn head_of(key: &[u8]) -> Option<u64> {
    key.first_chunk().map(|head| u64::from_be_bytes(*head))
}

/// Compares two keys, of which the second starts with `head`. Most keys differ in their first bytes.
fn compare(a: &[u8], b: &[u8], head: Option<u64>) -> Ordering {
    match (head_of(a), head) {
        (Some(a), Some(b)) if a != b => a.cmp(&b),
        _ => a.cmp(b),
    }
}

/// Returns a leaf's cell that contains the value.
pub(crate) fn leaf_cell(key: &[u8], value: &[u8]) -> Vec<u8> {
    let key_len = key.len() as u16;
    let value_len = value.len() as u32;
    [
        &key_len.to_le_bytes()[..],
        &value_len.to_le_bytes(),
        key,
        value,
    ]
    .concat()
}

/// Returns a leaf's cell whose value is in a chain of pages.
pub(crate) fn chain_cell(key: &[u8], len: usize, first: u64) -> Vec<u8> {
    let key_len = key.len() as u16;
    let value_len = len as u32 | ELSEWHERE;
    [
        &key_len.to_le_bytes()[..],
        &value_len.to_le_bytes(),
        key,
        &first.to_le_bytes(),
    ]
    .concat()
}

/// Returns an inner page's cell.
pub(crate) fn inner_cell(key: &[u8], child: u64) -> Vec<u8> {
    let key_len = key.len() as u16;
    [&key_len.to_le_bytes()[..], &child.to_le_bytes(), key].concat()
}

/// Returns the length of a leaf cell that contains its value.
pub(crate) fn leaf_cell_len(key: usize, value: usize) -> usize {
    LEAF_CELL + key + value
}

/// Returns the bytes that a page has for slots and cells.
pub(crate) fn capacity(page_size: usize) -> usize {
    page_size - HEADER
}

/// Makes the page an empty node.
pub(crate) fn clear(bytes: &mut [u8], level: u8, first_child: u64) {
    let kind = match level {
        0 => LEAF,
        _ => INNER,
    };
    put(bytes, 0, &[kind, level, 0, 0]);
    let end = bytes.len() as u16;
    put(bytes, 4, &end.to_le_bytes());
    put(bytes, 6, &[0, 0]);
    put(bytes, 8, &first_child.to_le_bytes());
}

/// Makes the page a node with these cells. Returns false if they do not fit.
pub(crate) fn fill(bytes: &mut [u8], level: u8, first_child: u64, cells: &[&[u8]]) -> bool {
    clear(bytes, level, first_child);
    cells
        .iter()
        .enumerate()
        .all(|(i, cell)| put_cell(bytes, i, cell))
}

/// Puts a cell in front of cell `i` into the gap; returns false if the gap is too small. The page must
/// be a parsed node.
fn put_cell(bytes: &mut [u8], i: usize, cell: &[u8]) -> bool {
    let count = usize::from(u16_at(bytes, 2).unwrap_or(0));
    let begin = usize::from(u16_at(bytes, 4).unwrap_or(0));
    let slots = HEADER + SLOT * count;
    if i > count || begin < slots + SLOT + cell.len() || begin > bytes.len() {
        return false;
    }
    let at = begin - cell.len();
    put(bytes, at, cell);
    let slot = HEADER + SLOT * i;
    bytes.copy_within(slot..slots, slot + SLOT);
    put(bytes, slot, &(at as u16).to_le_bytes());
    put(bytes, 2, &(count as u16 + 1).to_le_bytes());
    put(bytes, 4, &(at as u16).to_le_bytes());
    true
}

/// Inserts a cell in front of cell `i` of the page, and compacts the cells if needed. Returns false if
/// it does not fit.
pub(crate) fn insert(page: u64, bytes: &mut [u8], i: usize, cell: &[u8]) -> Result<bool> {
    let node = Node::parse_any(page, bytes)?;
    if i > node.count() {
        return Err(node.bad_cell(i));
    }
    if node.used() + SLOT + cell.len() > capacity(bytes.len()) {
        return Ok(false);
    }
    if node.gap() < SLOT + cell.len() {
        let before = bytes.to_vec();
        let node = Node::parse_any(page, &before)?;
        let cells: Vec<&[u8]> = (0..node.count())
            .map(|i| node.cell(i))
            .collect::<Result<_>>()?;
        if !fill(bytes, node.level(), first_child(&before), &cells) {
            return Err(node.corrupt("its cells overlap"));
        }
    }
    match put_cell(bytes, i, cell) {
        true => Ok(true),
        false => Err(Error::corrupt(page, "its cells overlap")),
    }
}

/// Removes a cell.
pub(crate) fn remove(page: u64, bytes: &mut [u8], i: usize) -> Result<()> {
    let node = Node::parse_any(page, bytes)?;
    let range = node.cell_range(i)?;
    let (count, begin) = (node.count(), node.cells_begin());
    let garbage = node.garbage() + range.len();
    if garbage > bytes.len() - begin {
        return Err(node.corrupt("its cells overlap"));
    }
    let slot = HEADER + SLOT * i;
    bytes.copy_within(slot + SLOT..HEADER + SLOT * count, slot);
    put(bytes, 2, &(count as u16 - 1).to_le_bytes());
    // The bytes of a cell next to the gap become part of the gap.
    let (begin, garbage) = match range.start == begin {
        true => (range.end, garbage - range.len()),
        false => (begin, garbage),
    };
    put(bytes, 4, &(begin as u16).to_le_bytes());
    put(bytes, 6, &(garbage as u16).to_le_bytes());
    Ok(())
}

/// Returns the first child of an inner page.
pub(crate) fn first_child(bytes: &[u8]) -> u64 {
    u64_at(bytes, 8).unwrap_or(0)
}
