//! Scan of the page table, at opening and for inspection: which places are in use, and if the table is whole.

use crate::changes::Image;
use crate::cow::allocator::Allocator;
use crate::cow::node_store::{NodeStore, What};
use crate::error::{Error, Result};
use logforce_format::{
    CopyOnWriteRoot, PAGE_DATA_OFFSET, PageFileHeader, TableEntry, fan_out, planted, table_entries,
};
use std::io;

/// Reads the whole table. For the pages in use, it has one node for each 32 pages of 512 bytes, 256 of 4 KiB,
/// or 4096 of 64 KiB. A node is as long as a page.
///
/// A lost node does not fail the opening: reading the pages below it returns the error. Then no place in the
/// file counts as free, because the node may refer to it.
///
/// # Errors
/// [`Error::Damaged`] for a node that contradicts the header or another node, or for a file that is too
/// short.
pub(crate) fn scan(
    medium: &NodeStore,
    header: &PageFileHeader,
    root: &CopyOnWriteRoot,
    granule: u64,
) -> Result<Scanned> {
    let there = Length::of(medium)?;
    there.check(medium, root)?;
    let mut opening = Opening {
        medium,
        is_whole: true,
    };
    let used = walk(medium, header, root, there, &mut opening)?;
    let is_whole = opening.is_whole;
    let places = match is_whole || planted!("cow-lost-node-ignored") {
        true => used.free(granule),
        false => Allocator::new(granule, used.end),
    };
    Ok(Scanned { places, is_whole })
}

/// Result of reading the table at an opening.
pub(crate) struct Scanned {
    /// Allocator with the free places.
    pub(crate) places: Allocator,
    /// `false` if a node is lost.
    pub(crate) is_whole: bool,
}

/// Length of the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Length {
    bytes: u64,
    /// Number of whole places.
    places: u64,
}

impl Length {
    pub(crate) fn of(medium: &NodeStore) -> Result<Length> {
        let bytes = medium.file.len();
        let bytes = bytes.map_err(Error::io("ask for the length of", &medium.path))?;
        let places = bytes.saturating_sub(PAGE_DATA_OFFSET) / u64::from(medium.page_size);
        Ok(Length { bytes, places })
    }

    /// Checks that the file is long enough for all places in use.
    pub(crate) fn check(self, medium: &NodeStore, root: &CopyOnWriteRoot) -> Result<()> {
        let Length { bytes, places } = self;
        if root.places_end <= places {
            return Ok(());
        }
        Err(Error::Damaged {
            path: medium.path.clone(),
            what: "file".to_owned(),
            offset: bytes,
            found: format!(
                "it ends here, after {places} pages and table nodes, but its header counts {}",
                root.places_end
            ),
        })
    }
}

/// Visitor of an opening. It fails at the first contradiction.
struct Opening<'a> {
    medium: &'a NodeStore,
    is_whole: bool,
}

impl Visitor for Opening<'_> {
    fn node(&mut self, node: &Node, image: &Image) {
        self.medium.cache.insert(node.at.place, image.clone());
    }

    fn page(&mut self, _: u64, _: TableEntry) -> Result<()> {
        Ok(())
    }

    fn lost(&mut self, _: Error, _: (u64, u64)) -> Result<()> {
        self.is_whole = false;
        Ok(())
    }

    fn damaged(&mut self, error: Error, _: (u64, u64)) -> Result<()> {
        Err(error)
    }
}

/// Node of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node {
    pub(crate) at: TableEntry,
    /// Level of the node. The lowest level is 0.
    pub(crate) level: u32,
    /// First and last page that the node leads to.
    pub(crate) pages: (u64, u64),
}

/// Visitor of a walk, which reports findings in the order of pages. An error ends the walk.
pub(crate) trait Visitor {
    /// Returns true if the walk should visit what leads to these pages, first and last.
    fn wants(&self, _pages: (u64, u64)) -> bool {
        true
    }
    /// Called for a node that was read and verified.
    fn node(&mut self, node: &Node, image: &Image);
    /// Called for a page, with its place. The page is not read.
    fn page(&mut self, page: u64, at: TableEntry) -> Result<()>;
    /// Called for a node that cannot be read or is not the one that was written, with the pages below it.
    fn lost(&mut self, error: Error, pages: (u64, u64)) -> Result<()>;
    /// Called for a contradiction in bytes that are as they were written, with the pages below.
    fn damaged(&mut self, error: Error, pages: (u64, u64)) -> Result<()>;
}

/// Walks the table of a header. Returns the places that it refers to.
pub(crate) fn walk(
    medium: &NodeStore,
    header: &PageFileHeader,
    root: &CopyOnWriteRoot,
    there: Length,
    visitor: &mut dyn Visitor,
) -> Result<Used> {
    // One bit for each place in the file: no more than its length allows, which a sparse file may exaggerate.
    let words = root.places_end.min(there.places).div_ceil(64) as usize;
    let mut bits = Vec::new();
    let reserved = bits.try_reserve_exact(words);
    reserved.map_err(|e| Error::io("hold the places of", &medium.path)(io::Error::other(e)))?;
    bits.resize(words, 0);
    let mut walk = Walk {
        medium,
        page_count: header.page_count,
        visitor,
        used: Used {
            end: root.places_end,
            bits,
        },
    };
    if let Some(place) = root.place {
        let at = TableEntry {
            place,
            crc: root.crc,
        };
        walk.node(at, root.depth.saturating_sub(1), 0)?;
    }
    Ok(walk.used)
}

struct Walk<'a, 'v> {
    medium: &'a NodeStore,
    page_count: u64,
    used: Used,
    visitor: &'v mut dyn Visitor,
}

impl Walk<'_, '_> {
    /// Walks a node of this level, whose first page is `first`. The header bounds the levels, and no place is
    /// visited twice.
    fn node(&mut self, at: TableEntry, level: u32, first: u64) -> Result<()> {
        let bits = fan_out(self.medium.page_size).ilog2();
        let last = match 1u64.checked_shl(bits * (level + 1)) {
            Some(pages) => first.saturating_add(pages - 1),
            None => u64::MAX,
        };
        let node = Node {
            at,
            level,
            pages: (first, last),
        };
        if !self.visitor.wants(node.pages) {
            return Ok(());
        }
        // Marks the place before the read, because a lost node also owns its place.
        if self.used.mark(at.place) == Marked::Again {
            let found = format!("place {} has two owners", at.place);
            return self.damaged(&node, found, node.pages);
        }
        let image = match self.medium.read_node(at) {
            Ok(image) => image,
            Err(e @ Error::Damaged { .. }) => return self.visitor.lost(e, node.pages),
            Err(e) => return Err(e),
        };
        if let Err(e) = self.medium.check_node(at, &image, self.used.end) {
            return self.visitor.damaged(e, node.pages);
        }
        self.visitor.node(&node, &image);
        let span = 1u64.checked_shl(bits * level);
        for (index, child) in table_entries(&image) {
            let page = match index {
                0 => Some(first),
                _ => span
                    .and_then(|span| span.checked_mul(index as u64))
                    .and_then(|offset| first.checked_add(offset)),
            };
            let Some(page) = page.filter(|page| *page < self.page_count) else {
                let found = format!(
                    "entry {index} leads to a page beyond the end of the file, which has {} pages",
                    self.page_count
                );
                return self.damaged(&node, found, node.pages);
            };
            if level > 0 {
                self.node(child, level - 1, page)?;
                continue;
            }
            if !self.visitor.wants((page, page)) {
                continue;
            }
            match self.used.mark(child.place) {
                Marked::Again => {
                    let found = format!("place {}, of page {page}, has two owners", child.place);
                    self.damaged(&node, found, (page, page))?;
                }
                Marked::Now | Marked::Beyond => self.visitor.page(page, child)?,
            }
        }
        Ok(())
    }

    fn damaged(&mut self, node: &Node, found: String, pages: (u64, u64)) -> Result<()> {
        let error = self.medium.damaged(What::Node, node.at, found);
        self.visitor.damaged(error, pages)
    }
}

/// Places that a table refers to.
pub(crate) struct Used {
    /// Exclusive end of the places in use.
    pub(crate) end: u64,
    bits: Vec<u64>,
}

/// Result of marking a place.
#[derive(Debug, PartialEq, Eq)]
enum Marked {
    Now,
    Again,
    /// The file is too short for this place. Reading it reports that.
    Beyond,
}

impl Used {
    fn mark(&mut self, place: u64) -> Marked {
        let bit = 1 << (place % 64);
        match self.bits.get_mut((place / 64) as usize) {
            Some(word) if *word & bit == 0 => {
                *word |= bit;
                Marked::Now
            }
            Some(_) => Marked::Again,
            None => Marked::Beyond,
        }
    }

    /// Returns the number of places in use.
    pub(crate) fn count(&self) -> u64 {
        self.bits
            .iter()
            .map(|word| u64::from(word.count_ones()))
            .sum()
    }

    /// Returns the places below the end that are not in use.
    fn free(&self, granule: u64) -> Allocator {
        let mut places = Allocator::new(granule, self.end);
        let mut start = 0;
        let mut free = |from: u64, to: u64| {
            if from < to {
                places.free(from..to);
            }
        };
        for (n, word) in self.bits.iter().enumerate() {
            let first = n as u64 * 64;
            if *word == 0 {
                continue;
            }
            for bit in 0..64 {
                if word >> bit & 1 == 1 {
                    free(start, first + bit);
                    start = first + bit + 1;
                }
            }
        }
        free(start, self.end);
        places
    }
}
