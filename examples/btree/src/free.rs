//! Free pages: a list that is stored in free pages itself. Snapshots keep the old content of a page, so
//! a freed page can be reused at once.
//!
//! ```text
//! 0      2       4    8      16
//! ┌──────┬───────┬────┬──────┬───────────────┐
//! │ kind │ count │    │ next │ page numbers… │
//! └──────┴───────┴────┴──────┴───────────────┘
//! ```

use crate::bytes::{put, u16_at, u64_at};
use crate::error::{Error, Result};
use crate::meta::{META, Meta};
use logforce::pages::Transaction;

const FREE: u8 = 4;
const HEADER: usize = 16;

/// A page of the list, for reading.
pub(crate) struct FreePage<'a> {
    bytes: &'a [u8],
    pub(crate) count: usize,
    /// Next page of the list; 0 for the last one.
    pub(crate) next: u64,
}

impl FreePage<'_> {
    pub(crate) fn parse(page: u64, bytes: &[u8]) -> Result<FreePage<'_>> {
        let count = usize::from(u16_at(bytes, 2).unwrap_or(0));
        if bytes.first() != Some(&FREE) || count > room(bytes.len()) {
            return Err(Error::corrupt(page, "it is not a page of the free list"));
        }
        Ok(FreePage {
            bytes,
            count,
            next: u64_at(bytes, 8).unwrap_or(0),
        })
    }

    /// Returns the number of a free page.
    pub(crate) fn entry(&self, i: usize) -> u64 {
        u64_at(self.bytes, HEADER + 8 * i).unwrap_or(META)
    }
}

/// Returns the number of page numbers that fit into a page of the list.
pub(crate) fn room(page_size: usize) -> usize {
    (page_size - HEADER) / 8
}

/// Returns a page for the caller to fill: a free one, or a new one.
pub(crate) fn allocate(txn: &mut Transaction, meta: &mut Meta) -> Result<u64> {
    let end = txn.page_count();
    if meta.free_list == 0 {
        txn.set_page_count(end + 1)?;
        return Ok(end);
    }
    let list = meta.free_list;
    let bytes = txn.page(list)?;
    let free = FreePage::parse(list, &bytes)?;
    let (page, next) = match free.count.checked_sub(1) {
        None => (list, free.next),
        Some(last) => {
            let count = last as u16;
            put(txn.page_mut(list)?, 2, &count.to_le_bytes());
            (free.entry(last), list)
        }
    };
    if page == META || page >= end || next >= end {
        return Err(Error::corrupt(
            list,
            format!(
                "it lists page {page} as free and page {next} as next, but the file has {end} pages"
            ),
        ));
    }
    meta.free_list = next;
    meta.free = meta.free.saturating_sub(1);
    Ok(page)
}

/// Adds a page to the free list.
pub(crate) fn release(txn: &mut Transaction, meta: &mut Meta, page: u64) -> Result<()> {
    let list = meta.free_list;
    meta.free = meta.free.saturating_add(1);
    if list != 0 {
        let bytes = txn.page(list)?;
        let count = FreePage::parse(list, &bytes)?.count;
        if count < room(bytes.len()) {
            let bytes = txn.page_mut(list)?;
            put(bytes, HEADER + 8 * count, &page.to_le_bytes());
            put(bytes, 2, &(count as u16 + 1).to_le_bytes());
            return Ok(());
        }
    }
    let bytes = txn.page_mut(page)?;
    put(bytes, 0, &[FREE, 0, 0, 0]);
    put(bytes, 8, &list.to_le_bytes());
    meta.free_list = page;
    Ok(())
}
