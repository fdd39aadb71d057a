//! Removing a key, and merging pages that have become too empty.

use crate::chain;
use crate::error::Result;
use crate::free;
use crate::insert::insert_at;
use crate::node::{self, Node, SLOT, ValueAt};
use crate::write::{Draft, Step};

/// Removes a key. True if it was there.
pub(crate) fn delete(draft: &mut Draft, key: &[u8]) -> Result<bool> {
    let (path, leaf) = draft.path_to(key)?;
    let page = draft.txn.page(leaf)?;
    let node = Node::parse(leaf, &page, 0)?;
    let (at, true) = node.find(key)? else {
        return Ok(false);
    };
    if let ValueAt::Chain { first, len } = node.value(at)? {
        chain::free(&mut draft.txn, &mut draft.meta, first, len)?;
    }
    node::remove(leaf, draft.txn.page_mut(leaf)?, at)?;
    draft.meta.keys = draft.meta.keys.saturating_sub(1);
    merge(draft, &path, leaf)?;
    Ok(true)
}

/// Of two neighbours, below which child of the parent the left one is, and which pages they are.
#[derive(Debug, Clone, Copy)]
struct Pair {
    at: usize,
    left: u64,
    right: u64,
}

/// Merges a page, to which `path` leads, with a neighbour if it is less than a third full and both fit
/// into one page with an eighth to spare; so the next insert does not split it again. A page that has
/// no cell left is merged always.
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
    // An inner page keeps one cell at least: its children have neighbours then.
    match neighbour {
        Some(pair) if node.count() == 0 && !node.is_leaf() => {
            borrow(draft, above, &node, &parent, pair)
        }
        _ => Ok(()),
    }
}

/// A root with one child only is not needed.
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

/// Bytes that both need in one page.
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

/// Puts all cells into the left page, and frees the right one.
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

/// Gives an inner page that has no cell one of its neighbour's, which is too full to take it in.
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
    // The separator comes down between the two children, and the giver's outermost key goes up.
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
