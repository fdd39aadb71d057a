//! Walking the page table when a file is opened: which places are in use, and whether the table is
//! whole.

use crate::changes::Image;
use crate::cow::medium::{Medium, What};
use crate::cow::places::Places;
use crate::error::{Error, Result};
use logforce_format::{
    CopyOnWriteRoot, PAGE_DATA_OFFSET, PageFileHeader, TableEntry, fan_out, table_entries,
};

/// Reads the whole table: one node for each 32 pages of 512 bytes, 256 of 4 KiB, 4096 of 64 KiB
/// that are in use, each as long as a page. Gives the free places.
///
/// # Errors
/// [`Error::Damaged`], naming the node, or saying that the file is too short.
pub(crate) fn free_places(
    medium: &Medium,
    header: &PageFileHeader,
    root: &CopyOnWriteRoot,
    granule: u64,
) -> Result<Places> {
    let len = medium.file.len();
    let len = len.map_err(Error::io("ask for the length of", &medium.path))?;
    let there = len.saturating_sub(PAGE_DATA_OFFSET) / u64::from(medium.page_size);
    if root.places_end > there {
        return Err(Error::Damaged {
            path: medium.path.clone(),
            what: "file".to_owned(),
            offset: len,
            found: format!(
                "it ends here, with {there} pages, and its header tells of {}",
                root.places_end
            ),
        });
    }
    let mut walk = Walk {
        medium,
        page_count: header.page_count,
        places_end: root.places_end,
        // A bit for each place that is there: no more than the file's length allows.
        used: vec![0; root.places_end.div_ceil(64) as usize],
    };
    if let Some(place) = root.place {
        let at = TableEntry {
            place,
            crc: root.crc,
        };
        walk.node(at, root.depth.saturating_sub(1), 0)?;
    }
    Ok(walk.places(granule))
}

struct Walk<'a> {
    medium: &'a Medium,
    page_count: u64,
    places_end: u64,
    used: Vec<u64>,
}

impl Walk<'_> {
    /// A node of this level, whose first page is `first`. The header bounds the levels, and no place
    /// is visited twice.
    fn node(&mut self, at: TableEntry, level: u32, first: u64) -> Result<()> {
        let image: Image = self.medium.read_node(at, self.places_end)?;
        if !self.mark(at.place) {
            return Err(self.damaged(at, format!("place {} has two owners", at.place)));
        }
        self.medium.cache.insert(at.place, image.clone());
        let bits = fan_out(self.medium.page_size).ilog2();
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
                    "entry {index} is of a page that is not below the number of pages, {}",
                    self.page_count
                );
                return Err(self.damaged(at, found));
            };
            if level > 0 {
                self.node(child, level - 1, page)?;
            } else if !self.mark(child.place) {
                let found = format!("place {}, of page {page}, has two owners", child.place);
                return Err(self.damaged(at, found));
            }
        }
        Ok(())
    }

    /// Marks a place as used; `false` if it was, or if there is none.
    fn mark(&mut self, place: u64) -> bool {
        let bit = 1 << (place % 64);
        match self.used.get_mut((place / 64) as usize) {
            Some(word) if *word & bit == 0 => {
                *word |= bit;
                true
            }
            _ => false,
        }
    }

    fn damaged(&self, at: TableEntry, found: String) -> Error {
        self.medium.damaged(What::Node, at, found)
    }

    fn places(&self, granule: u64) -> Places {
        let mut places = Places::new(granule, self.places_end);
        let mut start = 0;
        let mut free = |from: u64, to: u64| {
            if from < to {
                places.free(from..to);
            }
        };
        for (n, word) in self.used.iter().enumerate() {
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
        free(start, self.places_end);
        places
    }
}
