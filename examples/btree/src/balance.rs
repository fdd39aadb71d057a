//! Splits of full pages, and merges of pages that have become too empty.

use crate::draft::{Draft, Step};
use crate::error::{Error, Result};
use crate::free;
use crate::limits::MAX_HEIGHT;
use crate::node::{self, Node, SLOT};
use logforce::pages::Page;

/// Inserts a cell in front of cell `at` of a page, to which `path` leads; splits the page if it is full.
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

/// Adds a level after a split of the root: a new root above both halves.
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

/// Distribution of an overfull page's cells over two pages.
struct Split {
    /// Number of cells that stay.
    left: usize,
    /// Index of the first cell that moves to the new page.
    right: usize,
    right_first: u64,
    separator: Vec<u8>,
}

impl Split {
    /// Returns the split of a node. `cells` are the node's cells with the new one at `at`.
    fn of(
        draft: &Draft,
        path: &[Step],
        node: &Node<'_>,
        cells: &[&[u8]],
        at: usize,
    ) -> Result<Split> {
        // Ascending keys fill their pages completely, because nothing will be inserted to the left of
        // them.
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
        // The middle cell moves up to the parent, and its child becomes the first child of the new page.
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

/// Returns the key in a cell.
fn key_of<'c>(node: &Node<'_>, cell: &'c [u8]) -> Option<&'c [u8]> {
    let head = match node.is_leaf() {
        true => node::LEAF_CELL,
        false => node::INNER_CELL,
    };
    let len = usize::from(crate::bytes::u16_at(cell, 0)?);
    cell.get(head..)?.get(..len)
}

/// Returns true if all steps took the last child.
fn is_rightmost(draft: &Draft, path: &[Step]) -> Result<bool> {
    for step in path {
        let page: Page = draft.txn.page(step.page)?;
        if step.child < Node::parse_any(step.page, &page)?.count() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the number of leading cells that make up half of the bytes; at least one, and not all.
fn halves(cells: &[&[u8]]) -> usize {
    let total: usize = cells.iter().map(|cell| SLOT + cell.len()).sum();
    let mut left = 0;
    for (i, cell) in cells.iter().enumerate() {
        left += SLOT + cell.len();
        if 2 * left >= total {
            // With or without this cell, whichever is closer to half.
            let without = left - SLOT - cell.len();
            let count = i + usize::from(2 * left - total <= total - 2 * without);
            return count.min(cells.len() - 1).max(1);
        }
    }
    cells.len() - 1
}

/// Returns the shortest key above `before` and not above `first`.
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

/// Two neighbouring pages; `at` is the index of the left one among the parent's children.
#[derive(Debug, Clone, Copy)]
struct Pair {
    at: usize,
    left: u64,
    right: u64,
}

/// Merges a page, to which `path` leads, with a neighbour, if it is less than a third full and both fit
/// into one page. An eighth of the page must stay free, so that the next insert does not split it again.
/// A leaf without cells is always merged. An inner page without cells is merged, or gets a cell of a
/// neighbour that is too full for that.
pub(crate) fn merge(draft: &mut Draft, path: &[Step], number: u64) -> Result<()> {
    let page = draft.txn.page(number)?;
    let node = Node::parse_any(number, &page)?;
    let Some((step, above)) = path.split_last() else {
        return shrink(draft, number);
    };
    let capacity = node::capacity(page.len());
    if 3 * node.used() > capacity {
        return Ok(());
    }
    let limit = match node.count() {
        0 => capacity,
        _ => capacity - capacity / 8,
    };
    let parent_page = draft.txn.page(step.page)?;
    let parent = Node::parse(step.page, &parent_page, node.level().saturating_add(1))?;
    let mut neighbour = None;
    for at in [step.child.checked_sub(1), Some(step.child)] {
        let Some(at) = at.filter(|at| *at < parent.count()) else {
            continue;
        };
        let pair = Pair {
            at,
            left: parent.child(at)?,
            right: parent.child(at + 1)?,
        };
        if joined_len(draft, &node, &parent, pair)? <= limit {
            join(draft, &node, &parent, pair)?;
            return merge(draft, above, step.page);
        }
        neighbour = Some(pair);
    }
    // An inner page keeps at least one cell, so that its children have neighbours.
    match neighbour {
        Some(pair) if node.count() == 0 && !node.is_leaf() => {
            borrow(draft, above, &node, &parent, pair)
        }
        _ => Ok(()),
    }
}

/// Removes a root that has only one child.
fn shrink(draft: &mut Draft, number: u64) -> Result<()> {
    let page = draft.txn.page(number)?;
    let node = Node::parse_any(number, &page)?;
    if node.is_leaf() || node.count() > 0 {
        return Ok(());
    }
    draft.meta.root = node.child(0)?;
    draft.meta.height = draft.meta.height.saturating_sub(1).max(1);
    free::release(&mut draft.txn, &mut draft.meta, number)
}

/// Returns the bytes that both pages need in one.
fn joined_len(draft: &Draft, node: &Node<'_>, parent: &Node<'_>, pair: Pair) -> Result<usize> {
    let page = |number| draft.txn.page(number);
    let (left, right) = (page(pair.left)?, page(pair.right)?);
    let left = Node::parse(pair.left, &left, node.level())?;
    let right = Node::parse(pair.right, &right, node.level())?;
    let separator = match node.is_leaf() {
        true => 0,
        false => SLOT + parent.cell(pair.at)?.len(),
    };
    Ok(left.used() + right.used() + separator)
}

/// Moves all cells to the left page, and frees the right one.
fn join(draft: &mut Draft, node: &Node<'_>, parent: &Node<'_>, pair: Pair) -> Result<()> {
    let level = node.level();
    let (left_page, right_page) = (draft.txn.page(pair.left)?, draft.txn.page(pair.right)?);
    let left = Node::parse(pair.left, &left_page, level)?;
    let right = Node::parse(pair.right, &right_page, level)?;
    let mut cells: Vec<&[u8]> = Vec::with_capacity(left.count() + right.count() + 1);
    for i in 0..left.count() {
        cells.push(left.cell(i)?);
    }
    let separator;
    if !left.is_leaf() {
        separator = node::inner_cell(parent.key(pair.at)?, right.child(0)?);
        cells.push(&separator);
    }
    for i in 0..right.count() {
        cells.push(right.cell(i)?);
    }
    let first = node::first_child(&left_page);
    if !node::fill(draft.txn.page_mut(pair.left)?, level, first, &cells) {
        return Err(left.corrupt("its cells are longer than they may be"));
    }
    let above = draft.txn.page_mut(parent.number())?;
    node::remove(parent.number(), above, pair.at)?;
    free::release(&mut draft.txn, &mut draft.meta, pair.right)
}

/// Moves a cell to an inner page without cells from its neighbour, which is too full to be merged with
/// it.
fn borrow(
    draft: &mut Draft,
    above: &[Step],
    node: &Node<'_>,
    parent: &Node<'_>,
    pair: Pair,
) -> Result<()> {
    let level = node.level();
    let is_left = pair.left == node.number();
    let giver_number = match is_left {
        true => pair.right,
        false => pair.left,
    };
    let giver_page = draft.txn.page(giver_number)?;
    let giver = Node::parse(giver_number, &giver_page, level)?;
    let Some(last) = giver.count().checked_sub(1) else {
        return Ok(());
    };
    let between = parent.key(pair.at)?;
    let own = node.child(0)?;
    let mut cells: Vec<&[u8]> = (0..giver.count())
        .map(|i| giver.cell(i))
        .collect::<Result<_>>()?;
    // The separator moves down between the two children, and the neighbour's outermost key moves up.
    let (moved, first, child, giver_first) = match is_left {
        true => {
            cells.remove(0);
            (giver.key(0)?, own, giver.child(0)?, giver.child(1)?)
        }
        false => {
            cells.pop();
            let child = giver.child(giver.count())?;
            (giver.key(last)?, child, own, giver.child(0)?)
        }
    };
    let down = node::inner_cell(between, child);
    let up = node::inner_cell(moved, pair.right);
    let fits = node::fill(draft.txn.page_mut(node.number())?, level, first, &[&down])
        && node::fill(
            draft.txn.page_mut(giver_number)?,
            level,
            giver_first,
            &cells,
        );
    if !fits {
        return Err(giver.corrupt("its cells are longer than they may be"));
    }
    let number = parent.number();
    node::remove(number, draft.txn.page_mut(number)?, pair.at)?;
    insert_at(draft, above, number, pair.at, &up)
}
