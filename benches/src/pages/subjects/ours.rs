//! `logforce::pages`, in both commit modes.

use crate::pages::case::PAGE;
use crate::pages::store::{Change, Layout, OpenStore, PageStore};
use anyhow::Result;
use logforce::pages::{CommitMode, Options, PageFile, open_or_create};
use std::path::Path;

/// Pages per transaction while the file is created.
const FILL: u64 = 4096;

/// A page file with default options.
pub struct Ours(CommitMode);

impl Ours {
    pub fn logged() -> Ours {
        Ours(CommitMode::Logged)
    }

    pub fn copy_on_write() -> Ours {
        Ours(CommitMode::CopyOnWrite)
    }
}

impl PageStore for Ours {
    fn name(&self) -> &'static str {
        match self.0 {
            CommitMode::Logged => "logged",
            CommitMode::CopyOnWrite => "copy-on-write",
        }
    }

    fn settings(&self) -> String {
        match self.0 {
            CommitMode::Logged => "logforce::pages, logged; checksums",
            CommitMode::CopyOnWrite => "logforce::pages, copy-on-write; checksums",
        }
        .to_owned()
    }

    fn open(&self, dir: &Path, layout: Layout) -> Result<Box<dyn OpenStore>> {
        let options = Options::new()
            .mode(self.0)
            .checkpoint_distance(layout.distance)
            .cache_size(layout.cache);
        let file = open_or_create(dir.join("file"), options)?;
        let page = vec![1; PAGE];
        let mut next = file.latest()?.page_count();
        while next < layout.pages {
            let end = layout.pages.min(next + FILL);
            let mut transaction = file.begin()?;
            for number in next..end {
                transaction.write(number, &page)?;
            }
            transaction.commit()?;
            next = end;
        }
        file.checkpoint()?;
        Ok(Box::new(Open(file)))
    }
}

struct Open(PageFile);

impl OpenStore for Open {
    fn commit(&self, change: &Change<'_>) -> Result<()> {
        let mut transaction = self.0.begin()?;
        let at = change.at.min(PAGE - change.bytes.len());
        for &page in change.pages {
            match change.is_whole() {
                true => transaction.write(page, change.bytes)?,
                false => transaction.page_mut(page)?[at..at + change.bytes.len()]
                    .copy_from_slice(change.bytes),
            }
        }
        transaction.commit()?;
        Ok(())
    }

    fn finish(&self) -> Result<()> {
        Ok(self.0.checkpoint()?)
    }
}
