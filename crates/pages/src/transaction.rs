//! Transactions: building a set of changes, and committing it.

use crate::changes::{Change, Changes, Image, Purpose};
use crate::commit_handle::CommitHandle;
use crate::dispatch::{Store, View};
use crate::error::{Error, Result};
use crate::page::Page;
use crate::snapshot::check;
use crate::types::Acknowledged;
use logforce_core::Policy;
use logforce_format::{MAX_PAGES, Resize};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// Set of changes in memory, on top of the state in which the transaction began. Dropping it discards them.
pub struct Transaction {
    store: Store,
    view: View,
    page_size: u32,
    pages: BTreeMap<u64, Draft>,
    resize: Resize,
}

/// Change of a page in the transaction.
enum Draft {
    Write { bytes: Image, before: Option<Image> },
    Discard,
}

impl Transaction {
    pub(crate) fn new(store: Store, view: View) -> Self {
        let page_size = store.header().page_size;
        Transaction {
            store,
            view,
            page_size,
            pages: BTreeMap::new(),
            resize: Resize::NONE,
        }
    }

    /// Returns the exclusive end of the page numbers, including the changes of this transaction so far.
    pub fn page_count(&self) -> u64 {
        self.resize
            .page_count(self.view.page_count(), self.last_written())
    }

    fn last_written(&self) -> Option<u64> {
        let writes = |(_, draft): &(&u64, &Draft)| matches!(draft, Draft::Write { .. });
        self.pages.iter().rfind(writes).map(|(page, _)| *page)
    }

    /// Returns true if the page's contents are those of the view.
    fn is_of_view(&self, page: u64) -> bool {
        page < self.view.page_count().min(self.resize.drop_from)
    }

    /// Reads a page as this transaction sees it: the state in which it began, with its own changes.
    ///
    /// # Errors
    /// As [`Snapshot::read`](crate::Snapshot::read).
    pub fn read(&self, page: u64, buf: &mut [u8]) -> Result<()> {
        check(page, self.page_count(), buf.len(), self.page_size)?;
        match self.pages.get(&page) {
            Some(Draft::Write { bytes, .. }) => buf.copy_from_slice(bytes),
            Some(Draft::Discard) => buf.fill(0),
            None if self.is_of_view(page) => self.view.read(page, buf)?,
            None => buf.fill(0),
        }
        Ok(())
    }

    /// Returns a page's contents as this transaction sees them now. Contents that are in memory are not
    /// copied. Later changes by this transaction do not change the returned contents.
    ///
    /// # Errors
    /// As [`Snapshot::read`](crate::Snapshot::read).
    pub fn page(&self, page: u64) -> Result<Page> {
        check(
            page,
            self.page_count(),
            self.page_size as usize,
            self.page_size,
        )?;
        let image = match self.pages.get(&page) {
            Some(Draft::Write { bytes, .. }) => bytes.clone(),
            None if self.is_of_view(page) => self.view.image(page, Purpose::Read)?,
            Some(Draft::Discard) | None => vec![0; self.page_size as usize].into(),
        };
        Ok(Page::new(image))
    }

    /// Replaces a page. A number at or above [`Transaction::page_count`] makes the file larger. The pages in
    /// between are zeroes.
    ///
    /// # Errors
    /// [`Error::PageSize`]; [`Error::PageTwice`] if the transaction has written or discarded the page;
    /// [`Error::OutOfRange`] from page 2^48 on.
    pub fn write(&mut self, page: u64, bytes: &[u8]) -> Result<()> {
        check(page, MAX_PAGES, bytes.len(), self.page_size)?;
        match self.pages.entry(page) {
            Entry::Occupied(_) => Err(Error::PageTwice { page }),
            Entry::Vacant(entry) => {
                entry.insert(Draft::Write {
                    bytes: bytes.into(),
                    before: None,
                });
                Ok(())
            }
        }
    }

    /// Returns a page, as the transaction sees it, to change in place. It may be called any number of times.
    /// A number at or above [`Transaction::page_count`] makes the file larger.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] from page 2^48 on, and those of reading the page.
    pub fn page_mut(&mut self, page: u64) -> Result<&mut [u8]> {
        check(page, MAX_PAGES, self.page_size as usize, self.page_size)?;
        let is_of_view = self.is_of_view(page);
        let draft = match self.pages.entry(page) {
            Entry::Occupied(entry) => {
                let draft = entry.into_mut();
                if matches!(draft, Draft::Discard) {
                    *draft = Draft::Write {
                        bytes: vec![0; self.page_size as usize].into(),
                        before: None,
                    };
                }
                draft
            }
            Entry::Vacant(entry) => {
                let before = match is_of_view {
                    true => Some(self.view.image(page, Purpose::Change)?),
                    false => None,
                };
                let bytes = match &before {
                    Some(image) => image.clone(),
                    None => vec![0; self.page_size as usize].into(),
                };
                entry.insert(Draft::Write { bytes, before })
            }
        };
        match draft {
            // The first change copies the contents, because they are shared with the view.
            Draft::Write { bytes, .. } => Ok(Arc::make_mut(bytes)),
            // Unreachable, because it was replaced above.
            Draft::Discard => Err(Error::PageTwice { page }),
        }
    }

    /// Drops a page, which reads as zeroes from now on. The data file keeps its blocks for later pages. A
    /// backup leaves the page out.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a page that does not exist, and [`Error::PageTwice`] if the transaction has
    /// written or discarded it.
    pub fn discard(&mut self, page: u64) -> Result<()> {
        check(
            page,
            self.page_count(),
            self.page_size as usize,
            self.page_size,
        )?;
        match self.pages.entry(page) {
            Entry::Occupied(_) => Err(Error::PageTwice { page }),
            Entry::Vacant(entry) => {
                entry.insert(Draft::Discard);
                Ok(())
            }
        }
    }

    /// Sets the number of pages. New pages are zeroes. Pages from number `count` on are dropped, as by
    /// [`discard`](Self::discard).
    ///
    /// # Errors
    /// [`Error::OutOfRange`] above 2^48 pages, or if the transaction has written a page at or above
    /// the new end.
    pub fn set_page_count(&mut self, count: u64) -> Result<()> {
        if let Some(page) = self.last_written().filter(|page| *page >= count) {
            return Err(Error::OutOfRange {
                page,
                page_count: count,
            });
        }
        if count > MAX_PAGES {
            return Err(Error::OutOfRange {
                page: count,
                page_count: MAX_PAGES,
            });
        }
        self.pages.retain(|page, _| *page < count);
        if count < self.page_count() {
            self.resize.drop_from = self.resize.drop_from.min(count);
        }
        self.resize.at_least = count;
        Ok(())
    }

    /// Commits, and waits until the commit is durable. Atomic: a crash leaves all changes or none.
    ///
    /// # Errors
    /// [`Error::Conflict`] if another transaction has changed one of the pages since this one began: begin
    /// again. [`Error::NoSpace`] if this commit was not accepted; in a copy-on-write file, commits that had
    /// returned and were not forced yet may be gone as well. [`Error::Poisoned`] if the page file has failed:
    /// only opening it again tells if the commit is durable.
    pub fn commit(self) -> Result<Acknowledged> {
        self.commit_with(Policy::Force)
    }

    /// Commits as [`Transaction::commit`], but returns once the commit has what `policy` promises. That may
    /// be less than durable: see [`Acknowledged::guarantee`].
    ///
    /// With [`Policy::Write`] a logged commit survives the end of the process when this returns. A
    /// copy-on-write file has nothing to write before it forces, so it treats [`Policy::Write`] like
    /// [`Policy::Interval`]. The commit returns with
    /// [`Guarantee::Nothing`](logforce_core::Guarantee::Nothing), unless a force has included it. Until it is
    /// forced, a crash of the process loses it and a full disk rolls it back.
    pub fn commit_with(self, policy: Policy) -> Result<Acknowledged> {
        let (store, view, changes) = self.into_parts();
        store.commit(&view, changes, policy)
    }

    /// Commits without waiting for the force. When this returns, the order of the commit is decided and
    /// [`PageFile::latest`] contains the changes.
    ///
    /// May block the thread. In a logged file it waits while another commit of the same pages is being
    /// appended, while the log's buffer is full, while the data file grows, or until a checkpoint has caught
    /// up. In a copy-on-write file it waits while too many bytes are not forced yet.
    ///
    /// [`PageFile::latest`]: crate::PageFile::latest
    pub fn submit(self) -> Result<CommitHandle> {
        self.submit_with(Policy::Force)
    }

    /// Submits as [`Transaction::submit`], with this policy.
    pub fn submit_with(self, policy: Policy) -> Result<CommitHandle> {
        let (store, view, changes) = self.into_parts();
        let pending = store.submit(&view, changes, policy)?;
        Ok(CommitHandle::new(pending))
    }

    /// Returns the parts that a commit takes: the store, the view of the beginning, and the changes.
    fn into_parts(self) -> (Store, View, Changes) {
        let change = |draft| match draft {
            Draft::Write { bytes, before } => Change::Write {
                image: bytes,
                before,
            },
            Draft::Discard => Change::Discard,
        };
        let changes = Changes {
            pages: self
                .pages
                .into_iter()
                .map(|(page, draft)| (page, change(draft)))
                .collect(),
            resize: self.resize,
        };
        (self.store, self.view, changes)
    }
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction")
            .field("pages", &self.pages.len())
            .field("page_count", &self.page_count())
            .finish_non_exhaustive()
    }
}
