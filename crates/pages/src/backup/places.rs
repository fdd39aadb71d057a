//! Writer of a copy-on-write file. Pages come in ascending order and get places in that order. Each node of
//! the page table follows the last page that it leads to.

use super::stream::Stream;
use crate::error::{Error, Result};
use logforce_format::{
    CopyOnWriteRoot, PageFileHeader, TableEntry, fan_out, place_crc, place_offset, set_table_entry,
    table_depth,
};
use std::io;

pub(super) struct PlaceWriter {
    out: Stream,
    page_size: u32,
    checksums: bool,
    /// Place of the next page or node.
    next: u64,
    /// Node being filled at each level, the lowest level first.
    levels: Vec<Level>,
    root: Option<TableEntry>,
}

struct Level {
    /// Number of the node among the nodes of its level.
    number: u64,
    bytes: Vec<u8>,
    is_used: bool,
}

impl PlaceWriter {
    pub(super) fn new(out: Stream, source: &PageFileHeader, page_count: u64) -> PlaceWriter {
        let page_size = source.page_size;
        let depth = match page_count.checked_sub(1) {
            Some(last) => table_depth(page_size, last),
            None => 0,
        };
        let level = |_| Level {
            number: 0,
            bytes: vec![0; page_size as usize],
            is_used: false,
        };
        PlaceWriter {
            out,
            page_size,
            checksums: source.checksums,
            next: 0,
            levels: (0..depth).map(level).collect(),
            root: None,
        }
    }

    pub(super) fn page(&mut self, page: u64, image: &[u8]) -> Result<()> {
        let crc = if self.checksums { place_crc(image) } else { 0 };
        let at = self.place(image, crc)?;
        self.enter(0, page, at)
    }

    /// Writes the unfinished nodes, hands all bytes to the system, and returns the root.
    pub(super) fn finish(mut self) -> Result<CopyOnWriteRoot> {
        for level in 0..self.levels.len() {
            self.finish_node(level)?;
        }
        self.out.flush()?;
        Ok(match self.root {
            Some(root) => CopyOnWriteRoot {
                place: Some(root.place),
                crc: root.crc,
                depth: self.levels.len() as u32,
                places_end: self.next,
            },
            None => CopyOnWriteRoot::default(),
        })
    }

    fn place(&mut self, bytes: &[u8], crc: u32) -> Result<TableEntry> {
        let place = self.next;
        let too_far = || io::Error::from(io::ErrorKind::FileTooLarge);
        let offset = place_offset(self.page_size, place)
            .ok_or_else(|| Error::io("write", "the backup")(too_far()))?;
        self.out.write(offset, bytes)?;
        self.next += 1;
        Ok(TableEntry { place, crc })
    }

    /// Records the place of a child: a page, or a node of the level below.
    fn enter(&mut self, level: usize, child: u64, at: TableEntry) -> Result<()> {
        let fan = fan_out(self.page_size);
        let number = child / fan;
        if self.levels.get(level).is_some_and(|l| l.number != number) {
            self.finish_node(level)?;
        }
        match self.levels.get_mut(level) {
            Some(node) => {
                node.number = number;
                node.is_used = true;
                set_table_entry(&mut node.bytes, (child % fan) as usize, Some(at));
            }
            None => self.root = Some(at),
        }
        Ok(())
    }

    fn finish_node(&mut self, level: usize) -> Result<()> {
        let Some(node) = self.levels.get_mut(level).filter(|l| l.is_used) else {
            return Ok(());
        };
        node.is_used = false;
        let number = node.number;
        let empty = vec![0; node.bytes.len()];
        let bytes = std::mem::replace(&mut node.bytes, empty);
        let at = self.place(&bytes, place_crc(&bytes))?;
        self.enter(level + 1, number, at)
    }
}
