//! Putting a key into the tree, and splitting pages that are full.

use crate::chain;
use crate::delete;
use crate::error::{Error, Result};
use crate::free;
use crate::limits::{MAX_HEIGHT, max_cell};
use crate::node::{self, Node, SLOT, ValueAt};
use crate::write::{Draft, Step};
use logforce::pages::Page;

/// Gives a key a value. True if it had one.
pub(crate) fn put(draft: &mut Draft, key: &[u8], value: &[u8]) -> Result<bool> {
    let (path, leaf) = draft.path_to(key)?;
    let page = draft.txn.page(leaf)?;
    let node = Node::parse(leaf, &page, 0)?;
    let (at, is_there) = node.find(key)?;
    let is_here = node::leaf_cell_len(key.len(), value.len()) <= max_cell(page.len());
    if !is_there {
        let cell = cell_of(draft, key, value, is_here)?;
        draft.meta.keys = draft.meta.keys.saturating_add(1);
        insert_at(draft, &path, leaf, at, &cell)?;
        return Ok(false);
    }
    match node.value(at)? {
        ValueAt::Here(range) if is_here && range.len() == value.len() => {
            if let Some(place) = draft.txn.page_mut(leaf)?.get_mut(range) {
                place.copy_from_slice(value);
            }
            return Ok(true);
        }
        ValueAt::Here(_) => {}
        ValueAt::Chain { first, len } => chain::free(&mut draft.txn, &mut draft.meta, first, len)?,
    }
    let before = node.cell_range(at)?.len();
    let cell = cell_of(draft, key, value, is_here)?;
    node::remove(leaf, draft.txn.page_mut(leaf)?, at)?;
    insert_at(draft, &path, leaf, at, &cell)?;
    if cell.len() < before {
        delete::merge(draft, &path, leaf)?;
    }
    Ok(true)
}

fn cell_of(draft: &mut Draft, key: &[u8], value: &[u8], is_here: bool) -> Result<Vec<u8>> {
    if is_here {
        return Ok(node::leaf_cell(key, value));
    }
    let first = chain::write(&mut draft.txn, &mut draft.meta, value)?;
    Ok(node::chain_cell(key, value.len(), first))
}

/// Puts a cell in front of cell `at` of a page, to which `path` leads; splits it if it is full.
pub(crate) fn insert_at(
    draft: &mut Draft,
    path: &[Step],
    number: u64,
    at: usize,
    cell: &[u8],
) -> Result<()> {
    if node::insert(number, draft.txn.page_mut(number)?, at, cell)? {
        return Ok(());
    }
    let page = draft.txn.page(number)?;
    let node = Node::parse_any(number, &page)?;
    let mut cells: Vec<&[u8]> = (0..node.count())
        .map(|i| node.cell(i))
        .collect::<Result<_>>()?;
    cells.insert(at, cell);
    let split = Split::of(draft, path, &node, &cells, at)?;
    let right = free::allocate(&mut draft.txn, &mut draft.meta)?;
    let (level, left_first) = (node.level(), node::first_child(&page));
    let fits = node::fill(
        draft.txn.page_mut(number)?,
        level,
        left_first,
        &cells[..split.left],
    ) && node::fill(
        draft.txn.page_mut(right)?,
        level,
        split.right_first,
        &cells[split.right..],
    );
    if !fits {
        return Err(node.corrupt("its cells are longer than they may be"));
    }
    let cell = node::inner_cell(&split.separator, right);
    match path.split_last() {
        Some((parent, path)) => insert_at(draft, path, parent.page, parent.child, &cell),
        None => grow(draft, level, number, &cell),
    }
}

/// The root was split: a page above both halves is the root now.
fn grow(draft: &mut Draft, level: u8, left: u64, cell: &[u8]) -> Result<()> {
    if draft.meta.height >= MAX_HEIGHT {
        return Err(Error::corrupt(left, "the tree has too many levels"));
    }
    let root = free::allocate(&mut draft.txn, &mut draft.meta)?;
    node::fill(draft.txn.page_mut(root)?, level + 1, left, &[cell]);
    draft.meta.root = root;
    draft.meta.height += 1;
    Ok(())
}

/// How the cells of a page that is too full go into two.
struct Split {
    /// So many of the cells stay.
    left: usize,
    /// The first one that goes into the new page.
    right: usize,
    right_first: u64,
    separator: Vec<u8>,
}

impl Split {
    /// `cells` are those of the node with the new one at `at`.
    fn of(
        draft: &Draft,
        path: &[Step],
        node: &Node<'_>,
        cells: &[&[u8]],
        at: usize,
    ) -> Result<Split> {
        // Keys that ascend fill their pages: nothing comes to the left of them again.
        let is_last = at + 1 == cells.len() && is_rightmost(draft, path)?;
        let left = match is_last {
            true => cells.len() - 1,
            false => halves(cells),
        };
        let key = |i: usize| cells.get(i).and_then(|cell| key_of(node, cell));
        let bad = || node.corrupt("its cells cannot be split");
        if node.is_leaf() {
            let (before, first) = (key(left.wrapping_sub(1)), key(left));
            let (before, first) = (before.ok_or_else(bad)?, first.ok_or_else(bad)?);
            return Ok(Split {
                left,
                right: left,
                right_first: 0,
                separator: separator(before, first).to_vec(),
            });
        }
        // The cell in the middle goes up, and its child is the new page's first.
        let left = left.min(cells.len().saturating_sub(2)).max(1);
        let middle = cells.get(left).ok_or_else(bad)?;
        Ok(Split {
            left,
            right: left + 1,
            right_first: crate::bytes::u64_at(middle, 2).ok_or_else(bad)?,
            separator: key(left).ok_or_else(bad)?.to_vec(),
        })
    }
}

/// The key in a cell.
fn key_of<'c>(node: &Node<'_>, cell: &'c [u8]) -> Option<&'c [u8]> {
    let head = match node.is_leaf() {
        true => node::LEAF_CELL,
        false => node::INNER_CELL,
    };
    let len = usize::from(crate::bytes::u16_at(cell, 0)?);
    cell.get(head..)?.get(..len)
}

/// Whether all steps took the last child.
fn is_rightmost(draft: &Draft, path: &[Step]) -> Result<bool> {
    for step in path {
        let page: Page = draft.txn.page(step.page)?;
        if step.child < Node::parse_any(step.page, &page)?.count() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// How many of the cells make up half of their bytes; not none and not all.
fn halves(cells: &[&[u8]]) -> usize {
    let total: usize = cells.iter().map(|cell| SLOT + cell.len()).sum();
    let mut left = 0;
    for (i, cell) in cells.iter().enumerate() {
        left += SLOT + cell.len();
        if 2 * left >= total {
            // With the cell or without it, whichever is nearer to half.
            let without = left - SLOT - cell.len();
            let count = i + usize::from(2 * left - total <= total - 2 * without);
            return count.min(cells.len() - 1).max(1);
        }
    }
    cells.len() - 1
}

/// The shortest key above `before` and not above `first`.
fn separator<'k>(before: &[u8], first: &'k [u8]) -> &'k [u8] {
    let common = before.iter().zip(first).take_while(|(a, b)| a == b).count();
    &first[..first.len().min(common + 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_are_short() {
        for (before, first, expected) in [
            ("apple", "banana", "b"),
            ("apple", "apply", "apply"),
            ("app", "apple", "appl"),
            ("", "x", "x"),
        ] {
            let separator = separator(before.as_bytes(), first.as_bytes());
            assert_eq!(separator, expected.as_bytes());
            assert!(before.as_bytes() < separator && separator <= first.as_bytes());
        }
    }

    #[test]
    fn halves_are_even_and_never_empty() {
        let cells = [vec![0; 8], vec![0; 8], vec![0; 8], vec![0; 8]];
        let cells: Vec<&[u8]> = cells.iter().map(|c| &c[..]).collect();
        assert_eq!(halves(&cells), 2);
        assert_eq!(halves(&cells[..2]), 1);
        let long = vec![0; 100];
        assert_eq!(halves(&[cells[0], cells[0], &long]), 2);
        assert_eq!(halves(&[&long, cells[0], cells[0]]), 1);
    }
}
