//! A tree under change by a write, and the path to a key in it.

use crate::error::Result;
use crate::meta::Meta;
use crate::node::Node;
use logforce::pages::Transaction;

/// A tree with the uncommitted changes of a write.
pub(crate) struct Draft {
    pub(crate) txn: Transaction,
    pub(crate) meta: Meta,
    pub(crate) page_size: usize,
}

/// An inner page on the path to a leaf, and the child taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) page: u64,
    pub(crate) child: usize,
}

impl Draft {
    /// Returns the path to a key: the inner pages from the root on, and the leaf.
    pub(crate) fn path_to(&self, key: &[u8]) -> Result<(Vec<Step>, u64)> {
        let mut path = Vec::with_capacity(self.meta.height.into());
        let mut number = self.meta.root;
        for level in (1..=self.meta.top()).rev() {
            let page = self.txn.page(number)?;
            let node = Node::parse(number, &page, level)?;
            let child = node.child_for(key)?;
            path.push(Step {
                page: number,
                child,
            });
            number = node.child(child)?;
        }
        Ok((path, number))
    }
}
