//! Keys and values returned by reads.

use crate::chain;
use crate::error::Result;
use crate::node::{Node, ValueAt};
use crate::source::Source;
use logforce::pages::Page;
use std::ops::{Deref, Range};

/// A value. One that is in a leaf is not copied: it shares the leaf's page.
#[derive(Clone)]
pub struct Value(Bytes);

#[derive(Clone)]
enum Bytes {
    Shared(Page, Range<usize>),
    Own(Vec<u8>),
}

impl Value {
    /// Returns the value of a leaf's cell.
    pub(crate) fn of(source: &impl Source, page: &Page, node: &Node<'_>, i: usize) -> Result<Self> {
        Ok(Value(match node.value(i)? {
            ValueAt::Here(range) => Bytes::Shared(page.clone(), range),
            ValueAt::Chain { first, len } => Bytes::Own(chain::read(source, first, len)?),
        }))
    }
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Shared(page, range) => page.get(range.clone()).unwrap_or_default(),
            Bytes::Own(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.deref().fmt(f)
    }
}

/// A key with its value, as a scan yields it.
#[derive(Clone)]
pub struct Entry {
    page: Page,
    key: Range<usize>,
    value: Found,
}

/// A value of an entry.
#[derive(Clone)]
enum Found {
    /// In the page of the key.
    Here(Range<usize>),
    Own(Vec<u8>),
}

impl Entry {
    pub(crate) fn of(source: &impl Source, page: &Page, node: &Node<'_>, i: usize) -> Result<Self> {
        Ok(Entry {
            page: page.clone(),
            key: node.key_range(i)?,
            value: match node.value(i)? {
                ValueAt::Here(range) => Found::Here(range),
                ValueAt::Chain { first, len } => Found::Own(chain::read(source, first, len)?),
            },
        })
    }

    /// Returns the key.
    pub fn key(&self) -> &[u8] {
        self.page.get(self.key.clone()).unwrap_or_default()
    }

    /// Returns the value.
    pub fn value(&self) -> &[u8] {
        match &self.value {
            Found::Here(range) => self.page.get(range.clone()).unwrap_or_default(),
            Found::Own(bytes) => bytes,
        }
    }
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry")
            .field("key", &self.key())
            .field("value", &self.value())
            .finish()
    }
}
