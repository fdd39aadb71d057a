//! Reads of a committed state.

use crate::check::{self, CheckReport};
use crate::entry::Value;
use crate::error::Result;
use crate::meta::Meta;
use crate::node::Node;
use crate::range::Range;
use crate::source::Source;
use logforce::pages::{Page, Snapshot};
use std::ops::RangeBounds;

/// The tree as it was after some commit. Later writes do not change it, and it blocks no writer. While
/// it exists, the old pages that it shows take space.
#[derive(Debug, Clone)]
pub struct View {
    snapshot: Snapshot,
    top: Top,
}

/// Page 0 and the root, with which every read starts.
#[derive(Debug, Clone)]
pub(crate) struct Top {
    pub(crate) meta: Meta,
    root: Page,
}

impl Top {
    pub(crate) fn new(meta: Meta, root: Page) -> Top {
        Top { meta, root }
    }

    pub(crate) fn read(source: &impl Source) -> Result<Top> {
        let meta = source.meta()?;
        let root = source.page(meta.root)?;
        Ok(Top { meta, root })
    }
}

impl View {
    pub(crate) fn new(snapshot: Snapshot, top: Top) -> View {
        View { snapshot, top }
    }

    /// Returns the number of the last commit in it.
    pub fn commit(&self) -> u64 {
        self.snapshot.commit()
    }

    /// Returns the number of keys.
    pub fn len(&self) -> u64 {
        self.top.meta.keys
    }

    /// Returns true if it has no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt), and the errors of the page file.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        get(&self.snapshot, &self.top, key.as_ref())
    }

    /// Returns the keys in a range with their values, in order; `rev()` reverses it. Entries may be
    /// taken from both ends of one scan in any order.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir_in(".")?;
    /// # use logforce::{Guarantee, pages::Options};
    /// # let options = Options::new().require(Guarantee::ProcessCrash);
    /// # let tree = logforce_btree::Tree::open_or_create(dir.path().join("tree"), options)?;
    /// # tree.put("apple", "1")?;
    /// # tree.put("banana", "2")?;
    /// for entry in tree.snapshot()?.range("a".."b") {
    ///     let entry = entry?;
    ///     assert_eq!((entry.key(), entry.value()), (&b"apple"[..], &b"1"[..]));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn range<K: AsRef<[u8]>>(&self, keys: impl RangeBounds<K>) -> Range {
        let own = |key: &K| key.as_ref().to_vec();
        Range::new(
            self.snapshot.clone(),
            self.top.meta,
            keys.start_bound().map(own),
            keys.end_bound().map(own),
        )
    }

    /// Returns all keys with their values.
    pub fn iter(&self) -> Range {
        self.range::<&[u8]>(..)
    }

    /// Checks the whole tree: the order and the bounds of the keys, the depth of the leaves, that each
    /// page is used once, and the counts.
    ///
    /// # Errors
    /// Errors that keep the check from reading. Damage is in the report.
    pub fn check(&self) -> Result<CheckReport> {
        check::check(&self.snapshot, &self.top.meta)
    }
}

/// Returns the value of a key.
pub(crate) fn get(source: &impl Source, top: &Top, key: &[u8]) -> Result<Option<Value>> {
    let mut number = top.meta.root;
    let mut below;
    let mut page = &top.root;
    for level in (1..=top.meta.top()).rev() {
        let node = Node::parse(number, page, level)?;
        number = node.child(node.child_for(key)?)?;
        below = source.page(number)?;
        page = &below;
    }
    let node = Node::parse(number, page, 0)?;
    match node.find(key)? {
        (at, true) => Value::of(source, page, &node, at).map(Some),
        (_, false) => Ok(None),
    }
}
