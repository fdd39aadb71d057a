//! Page table in memory: the place of each page in one committed state.
//!
//! The table is a persistent tree. A commit makes new nodes along the paths of the pages that it changes, and
//! shares all others with the previous state. So a reader's state stays unchanged at no cost. Pages and nodes
//! that were written are in the file, and the tree only refers to them ([`Link::Stored`]). Those committed
//! since the last header are in memory ([`Link::Page`], [`Link::Node`]).

use crate::changes::Image;
use logforce_format::{
    CopyOnWriteRoot, TableEntry, fan_out, planted, table_depth, table_entries, table_entry,
    table_index,
};
use std::sync::{Arc, OnceLock};

/// Target of an entry of a node.
#[derive(Debug, Clone, Default)]
pub(crate) enum Link {
    /// No target: all pages below are zeroes.
    #[default]
    None,
    /// Page or node in the file.
    Stored(TableEntry),
    /// Page that is not in the file, or was not when the link was made.
    Page(Arc<FreshPage>),
    /// Node that is not in the file, or was not when the link was made.
    Node(Arc<FreshNode>),
}

/// Page that was not yet written when it was committed.
#[derive(Debug)]
pub(crate) struct FreshPage {
    pub(crate) image: Image,
    /// CRC-32C, or 0 in a file without checksums.
    pub(crate) crc: u32,
    /// Place in the file, set once a current header refers to it.
    pub(crate) home: OnceLock<Home<TableEntry>>,
}

/// Place in the file of what was committed in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Home<T> {
    pub(crate) at: T,
    /// Number of the first header that refers to the place. A view that holds only an earlier one does not keep
    /// the place: it may be reused while the view reads.
    pub(crate) header: u64,
}

/// Node with entries that changed since it was written, or that was never written.
#[derive(Debug)]
pub(crate) struct FreshNode {
    /// Node as it is in the file.
    pub(crate) base: Option<Image>,
    /// Entries that differ from `base`, by ascending index.
    pub(crate) changes: Vec<(u16, Link)>,
    /// Place in the file, set once a current header refers to it; `Some(None)` if nothing was left in the
    /// node.
    pub(crate) home: OnceLock<Home<Option<TableEntry>>>,
}

/// Page table of a committed state.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tree {
    pub(crate) root: Link,
    /// Number of levels including the root, or 0 without a root.
    pub(crate) depth: u32,
}

/// Source of the nodes that are in the file.
pub(crate) trait Nodes {
    /// Reason why a node is not available.
    type Error;
    /// Returns the bytes of a node.
    fn node(&self, at: TableEntry) -> Result<Image, Self::Error>;
    /// Returns the number of the newest header whose places are kept while the tree is read.
    fn held_header(&self) -> u64;
}

/// Result of looking up a page.
#[derive(Debug, Clone)]
pub(crate) enum PageLookup {
    /// No contents: the page reads as zeroes.
    Hole,
    Stored(TableEntry),
    Fresh(Image),
}

fn base_link(base: Option<&Image>, index: usize) -> Link {
    base.and_then(|bytes| table_entry(bytes, index))
        .map_or(Link::None, Link::Stored)
}

impl Link {
    /// Returns the same link, by its place in the file if a header up to `held` refers to that.
    fn stored_if_held(self, held: u64) -> Link {
        let held = if planted!("cow-home-not-held") {
            u64::MAX
        } else {
            held
        };
        let stored = match &self {
            Link::Page(page) => page.home.get().map(|home| (home.header, Some(home.at))),
            Link::Node(node) => node.home.get().map(|home| (home.header, home.at)),
            _ => None,
        };
        match stored {
            Some((header, at)) if header <= held => at.map_or(Link::None, Link::Stored),
            _ => self,
        }
    }
}

/// Node that is about to be changed.
struct Draft {
    base: Option<Image>,
    changes: Vec<(u16, Link)>,
}

impl Draft {
    fn of<N: Nodes>(nodes: &N, link: Link) -> Result<Draft, N::Error> {
        let held = nodes.held_header();
        let (base, changes) = match link.stored_if_held(held) {
            Link::None | Link::Page(_) => (None, Vec::new()),
            Link::Stored(at) => (Some(nodes.node(at)?), Vec::new()),
            Link::Node(node) => {
                let settled = |(at, link): &(u16, Link)| (*at, link.clone().stored_if_held(held));
                let changes = node.changes.iter().map(settled).collect();
                (node.base.clone(), changes)
            }
        };
        Ok(Draft { base, changes })
    }

    fn link(&self, index: usize) -> Link {
        match self
            .changes
            .binary_search_by_key(&index, |(at, _)| (*at).into())
        {
            Ok(at) => self.changes[at].1.clone(),
            Err(_) => base_link(self.base.as_ref(), index),
        }
    }

    /// Merges changes, in ascending order, over the present ones.
    fn merge(&mut self, newer: Vec<(u16, Link)>) {
        if self.changes.last().map(|(at, _)| *at) < newer.first().map(|(at, _)| *at) {
            self.changes.extend(newer);
            return;
        }
        let older = std::mem::take(&mut self.changes);
        let mut older = older.into_iter().peekable();
        for (at, link) in newer {
            while let Some(kept) = older.next_if(|(before, _)| *before < at) {
                self.changes.push(kept);
            }
            older.next_if(|(before, _)| *before == at);
            self.changes.push((at, link));
        }
        self.changes.extend(older);
    }

    fn finish(self) -> Link {
        let nothing = |(_, link): &(u16, Link)| matches!(link, Link::None);
        if self.base.is_none() && self.changes.iter().all(nothing) {
            return Link::None;
        }
        Link::Node(Arc::new(FreshNode {
            base: self.base,
            changes: self.changes,
            home: OnceLock::new(),
        }))
    }
}

impl Tree {
    /// Makes the table that a header refers to.
    pub(crate) fn stored(root: &CopyOnWriteRoot) -> Tree {
        let crc = root.crc;
        let stored = |place| Link::Stored(TableEntry { place, crc });
        Tree {
            root: root.place.map_or(Link::None, stored),
            depth: root.depth,
        }
    }

    /// Looks up the contents of a page in this state.
    pub(crate) fn find<N: Nodes>(
        &self,
        nodes: &N,
        page_size: u32,
        page: u64,
    ) -> Result<PageLookup, N::Error> {
        if self.depth == 0 || table_depth(page_size, page) > self.depth {
            return Ok(PageLookup::Hole);
        }
        // Borrows as long as the path leads through memory, as it does for most readers. Each clone would
        // write to a counter that all readers share.
        let mut owned;
        let mut link = &self.root;
        for level in (0..self.depth).rev() {
            let index = table_index(page_size, page, level);
            match link {
                Link::None => return Ok(PageLookup::Hole),
                Link::Node(node) => {
                    let at = |(at, _): &(u16, Link)| usize::from(*at);
                    match node.changes.binary_search_by_key(&index, at) {
                        Ok(at) => link = &node.changes[at].1,
                        Err(_) => {
                            owned = base_link(node.base.as_ref(), index);
                            link = &owned;
                        }
                    }
                }
                Link::Stored(at) => {
                    owned = base_link(Some(&nodes.node(*at)?), index);
                    link = &owned;
                }
                Link::Page(_) => return Ok(PageLookup::Hole),
            }
        }
        Ok(match link {
            Link::None | Link::Node(_) => PageLookup::Hole,
            Link::Stored(at) => PageLookup::Stored(*at),
            Link::Page(page) => PageLookup::Fresh(page.image.clone()),
        })
    }

    /// Visits the pages that have contents, in ascending order.
    pub(crate) fn each_page<N: Nodes>(
        &self,
        nodes: &N,
        page_size: u32,
        visit: &mut dyn FnMut(u64) -> Result<(), N::Error>,
    ) -> Result<(), N::Error> {
        match self.depth.checked_sub(1) {
            Some(level) => each_page(nodes, page_size, self.root.clone(), (level, 0), visit),
            None => Ok(()),
        }
    }

    /// Returns this state with other contents of some pages, which must be in ascending order.
    pub(crate) fn with<N: Nodes>(
        &self,
        nodes: &N,
        page_size: u32,
        pages: &[(u64, Link)],
    ) -> Result<Tree, N::Error> {
        let written = pages.iter().rfind(|(_, link)| !matches!(link, Link::None));
        let mut tree = self.clone();
        if let Some((page, _)) = written {
            let depth = table_depth(page_size, *page);
            while tree.depth > 0 && tree.depth < depth {
                let changes = vec![(0, tree.root)];
                let draft = Draft {
                    base: None,
                    changes,
                };
                tree.root = draft.finish();
                tree.depth += 1;
            }
            tree.depth = tree.depth.max(depth);
        }
        // Leaves out dropped pages that the table does not cover.
        let reached =
            pages.partition_point(|(page, _)| table_depth(page_size, *page) <= tree.depth);
        if let (Some(level), [_, ..]) = (tree.depth.checked_sub(1), &pages[..reached]) {
            tree.root = update(nodes, page_size, tree.root, level, &pages[..reached])?;
        }
        Ok(tree.trimmed())
    }

    /// Returns this state without the pages from number `count` on.
    pub(crate) fn truncate<N: Nodes>(
        &self,
        nodes: &N,
        page_size: u32,
        count: u64,
    ) -> Result<Tree, N::Error> {
        let mut tree = self.clone();
        let Some(last) = count.checked_sub(1) else {
            return Ok(Tree::default());
        };
        let depth = table_depth(page_size, last);
        while tree.depth > depth {
            tree.root = Draft::of(nodes, tree.root)?.link(0);
            tree.depth -= 1;
        }
        // `count` is the first page to drop. If the table ends before it, there is nothing to drop.
        if let Some(level) = tree.depth.checked_sub(1)
            && table_depth(page_size, count) <= tree.depth
        {
            tree.root = truncate(nodes, page_size, tree.root, level, count)?;
        }
        Ok(tree.trimmed())
    }

    fn trimmed(self) -> Tree {
        match self.root {
            Link::None => Tree::default(),
            _ => self,
        }
    }
}

/// Visits the pages of a node, given its level and its number among the nodes of that level.
fn each_page<N: Nodes>(
    nodes: &N,
    page_size: u32,
    link: Link,
    (level, number): (u32, u64),
    visit: &mut dyn FnMut(u64) -> Result<(), N::Error>,
) -> Result<(), N::Error> {
    if matches!(link, Link::None) {
        return Ok(());
    }
    let node = Draft::of(nodes, link)?;
    let in_base = node.base.iter().flat_map(|bytes| table_entries(bytes));
    let changed = node.changes.iter().map(|(at, _)| usize::from(*at));
    let mut entries: Vec<usize> = in_base.map(|(at, _)| at).chain(changed).collect();
    entries.sort_unstable();
    entries.dedup();
    for at in entries {
        let child = number * fan_out(page_size) + at as u64;
        match (node.link(at), level) {
            (Link::None, _) => {}
            (_, 0) => visit(child)?,
            (link, level) => each_page(nodes, page_size, link, (level - 1, child), visit)?,
        }
    }
    Ok(())
}

/// Returns the node of this level with other contents of some of its pages.
fn update<N: Nodes>(
    nodes: &N,
    page_size: u32,
    link: Link,
    level: u32,
    pages: &[(u64, Link)],
) -> Result<Link, N::Error> {
    let mut draft = Draft::of(nodes, link)?;
    let index = |page: u64| table_index(page_size, page, level);
    let mut newer = Vec::new();
    for group in pages.chunk_by(|(a, _), (b, _)| index(*a) == index(*b)) {
        let at = index(group[0].0);
        let before = draft.link(at);
        let link = match (level, &before, group) {
            (0, _, [.., (_, link)]) => link.clone(),
            // Dropping pages that do not exist makes no nodes.
            (_, Link::None, _) if group.iter().all(|(_, l)| matches!(l, Link::None)) => continue,
            _ => update(nodes, page_size, before, level - 1, group)?,
        };
        newer.push((at as u16, link));
    }
    draft.merge(newer);
    Ok(draft.finish())
}

/// Returns the node of this level without the pages from `count` on. `count` is one of its pages.
fn truncate<N: Nodes>(
    nodes: &N,
    page_size: u32,
    link: Link,
    level: u32,
    count: u64,
) -> Result<Link, N::Error> {
    // Does not read a node that is dropped as a whole, because the node may be lost.
    let bits = fan_out(page_size).ilog2();
    let span = 1u64.checked_shl(bits * (level + 1));
    if matches!(link, Link::None) || span.is_some_and(|span| count.is_multiple_of(span)) {
        return Ok(Link::None);
    }
    let mut draft = Draft::of(nodes, link)?;
    let boundary = table_index(page_size, count, level);
    let mut newer = Vec::new();
    let within = match level {
        0 => Link::None,
        _ => truncate(nodes, page_size, draft.link(boundary), level - 1, count)?,
    };
    newer.push((boundary as u16, within));
    // In ascending order: entries of the node in the file, and entries that changed since.
    let in_base = draft.base.iter().flat_map(|bytes| table_entries(bytes));
    let changed = draft.changes.iter().map(|(at, _)| usize::from(*at));
    let mut above: Vec<usize> = in_base.map(|(at, _)| at).chain(changed).collect();
    above.retain(|at| *at > boundary);
    above.sort_unstable();
    above.dedup();
    newer.extend(above.into_iter().map(|at| (at as u16, Link::None)));
    draft.merge(newer);
    Ok(draft.finish())
}

/// The index of an entry must fit into 16 bits.
const _: () = assert!(logforce_format::MAX_PAGE_SIZE / 16 <= 1 << 16);
