//! Chains of pages, for values that do not fit into a leaf.
//!
//! ```text
//! 0      4        8      16
//! ┌──────┬────────┬──────┬──────────────┐
//! │ kind │ length │ next │ bytes of it… │
//! └──────┴────────┴──────┴──────────────┘
//! ```

use crate::bytes::{put, u32_at, u64_at};
use crate::error::{Error, Result};
use crate::free;
use crate::limits::MAX_VALUE;
use crate::meta::Meta;
use crate::source::Source;
use logforce::pages::{Error as PagesError, Page, Transaction};

const CHAIN: u8 = 3;
const HEADER: usize = 16;

/// Returns the bytes of a value in one page of its chain.
pub(crate) fn part_len(page_size: usize) -> usize {
    page_size - HEADER
}

/// Visits the pages of a chain with a value of `len` bytes: each page's number and its part of the
/// value. Ends after `len` bytes, so a cycle of pages does not loop forever.
pub(crate) fn walk(
    source: &impl Source,
    first: u64,
    len: usize,
    mut visit: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<()> {
    let (mut page, mut left) = (first, len);
    if len > MAX_VALUE {
        return Err(Error::corrupt(
            first,
            format!("its value has {len} bytes, maximum {MAX_VALUE}"),
        ));
    }
    while left > 0 {
        let bytes: Page = source.page(page)?;
        let expected = left.min(part_len(bytes.len()));
        let part = (bytes.first() == Some(&CHAIN)
            && u32_at(&bytes, 4) == u32::try_from(expected).ok())
        .then(|| &bytes[HEADER..HEADER + expected]);
        let Some(part) = part else {
            return Err(Error::corrupt(
                page,
                format!("it does not hold the next {expected} bytes of a value"),
            ));
        };
        visit(page, part)?;
        left -= expected;
        let next = u64_at(&bytes, 8).unwrap_or(0);
        if (left == 0) != (next == 0) {
            return Err(Error::corrupt(
                page,
                format!("{left} bytes of its value follow, but the next page is {next}"),
            ));
        }
        page = next;
    }
    Ok(())
}

/// Reads a value.
pub(crate) fn read(source: &impl Source, first: u64, len: usize) -> Result<Vec<u8>> {
    let mut value = Vec::new();
    walk(source, first, len, |_, part| {
        value.extend_from_slice(part);
        Ok(())
    })?;
    Ok(value)
}

/// Writes a value to a chain of pages. Returns the first page.
pub(crate) fn write(txn: &mut Transaction, meta: &mut Meta, value: &[u8]) -> Result<u64> {
    let page_size = txn.page(0)?.len();
    let mut next = 0;
    let mut bytes = vec![0; page_size];
    // The last part comes first, because each page has the number of the next one.
    for part in value.chunks(part_len(page_size)).rev() {
        let page = free::allocate(txn, meta)?;
        bytes.fill(0);
        put(&mut bytes, 0, &[CHAIN]);
        put(&mut bytes, 4, &(part.len() as u32).to_le_bytes());
        put(&mut bytes, 8, &u64::to_le_bytes(next));
        put(&mut bytes, HEADER, part);
        // The old content of the page does not matter, so it is not read.
        match txn.write(page, &bytes) {
            Err(PagesError::PageTwice { .. }) => txn.page_mut(page)?.copy_from_slice(&bytes),
            other => other?,
        }
        next = page;
    }
    Ok(next)
}

/// Frees the pages of a value.
pub(crate) fn free(txn: &mut Transaction, meta: &mut Meta, first: u64, len: usize) -> Result<()> {
    let mut pages = Vec::new();
    walk(txn, first, len, |page, _| {
        pages.push(page);
        Ok(())
    })?;
    pages
        .into_iter()
        .try_for_each(|page| free::release(txn, meta, page))
}
