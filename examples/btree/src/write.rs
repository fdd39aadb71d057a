//! A write: any number of changes, committed all or none.

use crate::draft::Draft;
use crate::edit;
use crate::entry::Value;
use crate::error::{Error, Result};
use crate::limits::{MAX_VALUE, max_key};
use crate::meta::{META, Meta};
use crate::source::Source;
use crate::view::{self, Top};
use logforce::pages::{Acknowledged, CommitHandle, Transaction};
use std::sync::MutexGuard;

/// Changes of a tree, on its latest state; dropping it discards them. There is one at a time:
/// [`Tree::begin`](crate::Tree::begin) waits until the current one is committed or dropped. Waiting for
/// the disk does not hold up other writes: [`commit`](Write::commit) lets the next one begin before it
/// waits, so writes of many threads become durable together.
pub struct Write<'t> {
    _turn: MutexGuard<'t, ()>,
    draft: Draft,
    /// Content of page 0 before the write.
    before: Meta,
    /// True after an operation has failed in the middle.
    is_broken: bool,
}

impl<'t> Write<'t> {
    pub(crate) fn new(
        turn: MutexGuard<'t, ()>,
        txn: Transaction,
        page_size: usize,
    ) -> Result<Write<'t>> {
        let meta = txn.meta()?;
        Ok(Write {
            _turn: turn,
            draft: Draft {
                txn,
                meta,
                page_size,
            },
            before: meta,
            is_broken: false,
        })
    }

    /// Returns the number of keys after the changes of this write.
    pub fn len(&self) -> u64 {
        self.draft.meta.keys
    }

    /// Returns true if the tree has no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value of a key after the changes of this write.
    ///
    /// # Errors
    /// As [`View::get`](crate::View::get).
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let root = self.draft.txn.page(self.draft.meta.root)?;
        let top = Top::new(self.draft.meta, root);
        view::get(&self.draft.txn, &top, key.as_ref())
    }

    /// Sets the value of a key. Returns true if it had one.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`] and [`Error::ValueTooLong`]; nothing was changed. After any other error the
    /// write can only be dropped.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        let (key, value) = (key.as_ref(), value.as_ref());
        let max = max_key(self.draft.page_size);
        if key.len() > max {
            return Err(Error::KeyTooLong {
                len: key.len(),
                max,
            });
        }
        if value.len() > MAX_VALUE {
            return Err(Error::ValueTooLong {
                len: value.len(),
                max: MAX_VALUE,
            });
        }
        self.change(|draft| edit::put(draft, key, value))
    }

    /// Removes a key. Returns true if it existed.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and the errors of the page file; the write can then only be dropped.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.change(|draft| edit::delete(draft, key.as_ref()))
    }

    fn change<T>(&mut self, change: impl FnOnce(&mut Draft) -> Result<T>) -> Result<T> {
        if self.is_broken {
            return Err(Error::Incomplete);
        }
        let result = change(&mut self.draft);
        self.is_broken = result.is_err();
        result
    }

    /// Commits, and waits until the commit is durable (or as the page file's policy says).
    ///
    /// # Errors
    /// [`Error::Incomplete`] after a failed operation, and the errors of [`Transaction::commit`].
    pub fn commit(self) -> Result<Acknowledged> {
        Ok(self.submit()?.wait()?)
    }

    /// Commits without waiting. [`Tree::latest`](crate::Tree::latest) shows the changes when this
    /// returns, and the handle reports when they are durable.
    ///
    /// # Errors
    /// As [`Write::commit`].
    pub fn submit(self) -> Result<CommitHandle> {
        let Draft { mut txn, meta, .. } = self.draft;
        if self.is_broken {
            return Err(Error::Incomplete);
        }
        if meta != self.before {
            meta.encode(txn.page_mut(META)?);
        }
        Ok(txn.submit()?)
    }
}

impl std::fmt::Debug for Write<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Write")
            .field("keys", &self.len())
            .finish_non_exhaustive()
    }
}
