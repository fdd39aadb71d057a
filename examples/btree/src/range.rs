//! Scans from both ends.

use crate::entry::Entry;
use crate::error::Result;
use crate::meta::Meta;
use crate::node::Node;
use crate::source::Source;
use logforce::pages::{Page, Snapshot};
use std::ops::Bound;

/// A scan of a range of keys: see [`View::range`](crate::View::range). Ends after an error.
#[derive(Debug)]
pub struct Range {
    snapshot: Snapshot,
    meta: Meta,
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
    front: Option<Cursor>,
    back: Option<Cursor>,
    is_done: bool,
}

/// Direction of a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

/// A position in the tree.
#[derive(Debug)]
struct Cursor {
    way: Way,
    /// Inner pages from the root on, each with the child taken.
    path: Vec<(u64, Page, usize)>,
    leaf: (u64, Page),
    /// Index of the next cell upwards; downwards, one above the next cell.
    at: usize,
    /// True after it has yielded an entry, which is then beside `at`.
    has_yielded: bool,
}

impl Cursor {
    /// Returns a cursor in front of the first cell within `bound`, seen in the cursor's direction.
    fn seek(source: &impl Source, meta: &Meta, way: Way, bound: &Bound<Vec<u8>>) -> Result<Cursor> {
        let mut cursor = Cursor {
            way,
            path: Vec::with_capacity(meta.height.into()),
            leaf: (meta.root, source.page(meta.root)?),
            at: 0,
            has_yielded: false,
        };
        cursor.descend(source, meta.top(), |node| match bound {
            Bound::Included(key) | Bound::Excluded(key) => node.child_for(key),
            Bound::Unbounded => Ok(edge(node, way)),
        })?;
        let node = cursor.node()?;
        cursor.at = match bound {
            Bound::Unbounded => edge(&node, way),
            Bound::Included(key) | Bound::Excluded(key) => {
                let (at, is_equal) = node.find(key)?;
                // Skips a key that is equal to the bound: upwards if it is excluded, downwards if it is
                // included.
                let is_included = matches!(bound, Bound::Included(_));
                at + usize::from(is_equal && is_included == (way == Way::Down))
            }
        };
        Ok(cursor)
    }

    /// Descends from the page in `leaf`, which is at `level`, to a leaf.
    fn descend(
        &mut self,
        source: &impl Source,
        level: u8,
        choose: impl Fn(&Node<'_>) -> Result<usize>,
    ) -> Result<()> {
        for level in (1..=level).rev() {
            let (number, page) = &self.leaf;
            let node = Node::parse(*number, page, level)?;
            let chosen = choose(&node)?;
            let child = node.child(chosen)?;
            let child = (child, source.page(child)?);
            let (number, page) = std::mem::replace(&mut self.leaf, child);
            self.path.push((number, page, chosen));
        }
        Ok(())
    }

    fn node(&self) -> Result<Node<'_>> {
        Node::parse(self.leaf.0, &self.leaf.1, 0)
    }

    /// Returns the next entry and moves the cursor past it; `None` at the end of the tree.
    fn next(&mut self, source: &impl Source) -> Result<Option<Entry>> {
        loop {
            let node = self.node()?;
            let at = match self.way {
                Way::Up => (self.at < node.count()).then_some(self.at),
                Way::Down => self.at.checked_sub(1),
            };
            if let Some(at) = at {
                let entry = Entry::of(source, &self.leaf.1, &node, at)?;
                self.at = match self.way {
                    Way::Up => at + 1,
                    Way::Down => at,
                };
                self.has_yielded = true;
                return Ok(Some(entry));
            }
            if !self.next_leaf(source)? {
                return Ok(None);
            }
        }
    }

    /// Returns the key of the last yielded entry.
    fn last(&self) -> Result<Option<&[u8]>> {
        if !self.has_yielded {
            return Ok(None);
        }
        let at = match self.way {
            Way::Up => self.at.saturating_sub(1),
            Way::Down => self.at,
        };
        self.node()?.key(at).map(Some)
    }

    /// Moves to the neighbouring leaf. Its keys must continue those of this leaf, so that a cycle of
    /// pages cannot make a scan endless.
    fn next_leaf(&mut self, source: &impl Source) -> Result<bool> {
        let before = (self.leaf.0, self.leaf.1.clone());
        let mut level = 0;
        loop {
            let Some((number, page, chosen)) = self.path.pop() else {
                return Ok(false);
            };
            level += 1;
            let node = Node::parse(number, &page, level)?;
            let next = match self.way {
                Way::Up => Some(chosen + 1).filter(|next| *next <= node.count()),
                Way::Down => chosen.checked_sub(1),
            };
            if let Some(next) = next {
                let child = node.child(next)?;
                self.leaf = (child, source.page(child)?);
                self.path.push((number, page, next));
                break;
            }
        }
        let way = self.way;
        self.descend(source, level - 1, |node| Ok(edge(node, way)))?;
        let node = self.node()?;
        let at = edge(&node, way);
        let old = Node::parse(before.0, &before.1, 0)?;
        let goes_on = node.count() > 0
            && match way {
                Way::Up => old.count() == 0 || old.key(old.count() - 1)? < node.key(0)?,
                Way::Down => old.count() == 0 || node.key(node.count() - 1)? < old.key(0)?,
            };
        if !goes_on {
            return Err(node.corrupt(format!(
                "its keys do not continue those of page {}",
                before.0
            )));
        }
        self.at = at;
        Ok(true)
    }
}

/// Returns the outermost child of an inner page, or the outermost position in a leaf, at which a cursor
/// starts.
fn edge(node: &Node<'_>, way: Way) -> usize {
    match way {
        Way::Up => 0,
        Way::Down => node.count(),
    }
}

impl Range {
    pub(crate) fn new(
        snapshot: Snapshot,
        meta: Meta,
        lower: Bound<Vec<u8>>,
        upper: Bound<Vec<u8>>,
    ) -> Range {
        Range {
            snapshot,
            meta,
            lower,
            upper,
            front: None,
            back: None,
            is_done: false,
        }
    }

    fn step(&mut self, way: Way) -> Result<Option<Entry>> {
        let (cursor, other, from, to) = match way {
            Way::Up => (&mut self.front, &self.back, &self.lower, &self.upper),
            Way::Down => (&mut self.back, &self.front, &self.upper, &self.lower),
        };
        let cursor = match cursor {
            Some(cursor) => cursor,
            None => cursor.insert(Cursor::seek(&self.snapshot, &self.meta, way, from)?),
        };
        let Some(entry) = cursor.next(&self.snapshot)? else {
            return Ok(None);
        };
        // Entries that the other end has yielded are not yielded again.
        let taken = match other {
            Some(other) => other.last()?,
            None => None,
        };
        let key = entry.key();
        let is_before = |end: &[u8]| match way {
            Way::Up => key < end,
            Way::Down => key > end,
        };
        let is_within = match to {
            Bound::Unbounded => true,
            Bound::Included(to) => key == &to[..] || is_before(to),
            Bound::Excluded(to) => is_before(to),
        };
        let is_new = taken.is_none_or(is_before);
        Ok((is_within && is_new).then_some(entry))
    }

    fn take(&mut self, way: Way) -> Option<Result<Entry>> {
        if self.is_done {
            return None;
        }
        let entry = self.step(way).transpose();
        self.is_done = !matches!(entry, Some(Ok(_)));
        entry
    }
}

impl Iterator for Range {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Result<Entry>> {
        self.take(Way::Up)
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Result<Entry>> {
        self.take(Way::Down)
    }
}

impl std::iter::FusedIterator for Range {}
