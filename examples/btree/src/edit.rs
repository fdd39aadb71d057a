//! Insertion and removal of a key.

use crate::balance::{insert_at, merge};
use crate::chain;
use crate::draft::Draft;
use crate::error::Result;
use crate::limits::max_cell;
use crate::node::{self, Node, ValueAt};

/// Sets the value of a key. Returns true if it had one.
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
        merge(draft, &path, leaf)?;
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

/// Removes a key. Returns true if it existed.
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
