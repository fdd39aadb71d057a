//! The page writes of LMDB's `MDB_WRITEMAP` alone: pages are changed in a mapping, which is synced; then
//! the header is changed and synced. A crash in between leaves some of the pages changed and others not,
//! as with the plain writes.

use super::plain;
use crate::pages::case::PAGE;
use crate::pages::store::{Change, Layout, OpenStore, PageStore};
use crate::rivals::take;
use anyhow::{Context, Result};
use logforce_device_os::MappedFile;
use std::path::Path;
use std::sync::Mutex;

/// Subject: `msync` of the whole file, then of the header's page.
pub struct Mapped;

impl PageStore for Mapped {
    fn name(&self) -> &'static str {
        "msync"
    }

    fn settings(&self) -> String {
        "changed in a mapping of the file, msync of the whole file, then of the header's page; in place, so a \
            crash leaves some pages of a commit and not others"
            .to_owned()
    }

    fn open(&self, dir: &Path, layout: Layout) -> Result<Box<dyn OpenStore>> {
        let path = dir.join("pages");
        plain::fill(&path, layout)?;
        let len = plain::len(layout);
        Ok(Box::new(Open {
            len,
            mapped: Mutex::new((MappedFile::open(&path, len)?, 0)),
        }))
    }
}

struct Open {
    len: u64,
    /// The mapping and the number of header writes. The thread that holds the lock commits.
    mapped: Mutex<(MappedFile, u64)>,
}

impl OpenStore for Open {
    fn commit(&self, change: &Change<'_>) -> Result<()> {
        let mut mapped = take(&self.mapped)?;
        let (mapped, count) = &mut *mapped;
        let at = change.at.min(PAGE - change.bytes.len()) as u64;
        for page in change.pages {
            mapped.write((page + 1) * PAGE as u64 + at, change.bytes)?;
        }
        let (all, header) = (PAGE as u64..self.len, 0..PAGE as u64);
        mapped.sync(&[all]).context("msync")?;
        *count += 1;
        mapped.write(0, &count.to_le_bytes())?;
        mapped.sync(&[header]).context("msync")?;
        Ok(())
    }
}
