//! Writes of an engine without a log: dirty pages sorted, written in place, synced, then a header. A
//! crash in between leaves some of the pages changed and others not. This is the lower bound of the
//! cost, and not crash-safe.

use crate::pages::case::PAGE;
use crate::pages::store::{Change, Layout, OpenStore, PageStore};
use crate::rivals::take;
use anyhow::{Context, Result};
use rustix::fs::{Mode, OFlags, fdatasync, open};
use std::fs::{File, OpenOptions};
use std::io::{IoSlice, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;

/// Name in the table.
pub const NAME: &str = "plain";

/// Largest number of pages in one `pwritev`.
const GATHERED: usize = 1024;

/// Subject: `pwritev` of sorted runs, `fdatasync`, a header through `O_DSYNC`.
pub struct Plain;

impl PageStore for Plain {
    fn name(&self) -> &'static str {
        NAME
    }

    fn settings(&self) -> String {
        "sorted, one pwritev for each contiguous run, fdatasync, then a header of 4096 bytes through \
         O_DSYNC; in place, so a crash leaves some pages of a commit and not others. The lower bound"
            .to_owned()
    }

    fn open(&self, dir: &Path, layout: Layout) -> Result<Box<dyn OpenStore>> {
        let path = dir.join("pages");
        fill(&path, layout)?;
        let through = open(&path, OFlags::WRONLY | OFlags::DSYNC, Mode::empty())?;
        Ok(Box::new(Open {
            pages: OpenOptions::new().write(true).open(&path)?,
            header: Mutex::new((through.into(), 0)),
        }))
    }
}

/// Returns the size of the file, bytes: a header and the pages.
pub fn len(layout: Layout) -> u64 {
    (layout.pages + 1) * PAGE as u64
}

/// Creates the file, unless it exists, and writes all of it.
pub fn fill(path: &Path, layout: Layout) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    let mut file = File::create(path)?;
    let block = vec![1; 256 * PAGE];
    let mut left = len(layout);
    while left > 0 {
        let len = left.min(block.len() as u64);
        file.write_all(&block[..len as usize])?;
        left -= len;
    }
    file.sync_all()?;
    Ok(())
}

struct Open {
    pages: File,
    /// Handle for durable header writes, and their number. The thread that holds the lock commits.
    header: Mutex<(File, u64)>,
}

impl OpenStore for Open {
    fn commit(&self, change: &Change<'_>) -> Result<()> {
        let mut header = take(&self.header)?;
        let mut page = [0; PAGE];
        let at = change.at.min(PAGE - change.bytes.len());
        page[at..at + change.bytes.len()].copy_from_slice(change.bytes);
        let mut pages = change.pages.iter().copied().peekable();
        while let Some(first) = pages.next() {
            let mut end = first + 1;
            while (end - first) < GATHERED as u64 && pages.next_if_eq(&end).is_some() {
                end += 1;
            }
            let slices = vec![IoSlice::new(&page); (end - first) as usize];
            let offset = (first + 1) * PAGE as u64;
            let written = rustix::io::pwritev(&self.pages, &slices, offset)?;
            anyhow::ensure!(written == slices.len() * PAGE, "a short write");
        }
        fdatasync(&self.pages).context("fdatasync")?;
        let (file, count) = &mut *header;
        *count += 1;
        page[..8].copy_from_slice(&count.to_le_bytes());
        file.write_all_at(&page, 0)?;
        Ok(())
    }
}
