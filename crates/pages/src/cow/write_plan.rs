//! Write plan: the pages and nodes to write before a header can refer to a committed state, and the places
//! that this state no longer needs.

use crate::changes::Image;
use crate::cow::tree::{FreshNode, FreshPage, Home, Link, Nodes, Tree};
use logforce_format::{
    TableEntry, place_crc, place_offset, planted, set_table_entry, table_entries, table_entry,
};
use std::ops::Range;
use std::sync::Arc;

/// Bytes that stay free in a full file. Dropping scattered pages writes a node for each page that had a
/// neighbour. A transaction that needs more than this must be split.
const RESERVE: u64 = 32 << 10;

/// Difference between the state that the last header refers to and a later one.
pub(crate) struct WritePlan {
    page_size: u32,
    /// True if the commit leaves the reserve, however much it frees.
    pub(crate) leaves_reserve: bool,
    /// Items that get a place, children before their parents.
    items: Vec<Item>,
    /// Nodes that have become empty. They get no place.
    emptied: Vec<Arc<FreshNode>>,
    /// Places that the earlier state refers to and the later one does not.
    pub(crate) freed: Vec<u64>,
    root: Target,
    depth: u32,
}

/// Page or node that gets a place.
enum Item {
    Page(Arc<FreshPage>),
    Node {
        node: Arc<FreshNode>,
        /// Bytes of the node, without the entries of children that get a place themselves.
        bytes: Vec<u8>,
        /// Indexes of those entries, each with the number of the child's item.
        children: Vec<(usize, usize)>,
    },
}

/// Target of a link once the plan is carried out.
#[derive(Clone, Copy)]
enum Target {
    None,
    Stored(TableEntry),
    Item(usize),
}

/// Plan whose items have places.
pub(crate) struct Placed {
    /// Bytes to write, with their offsets in bytes, in ascending order.
    pub(crate) pieces: Vec<(u64, Image)>,
    /// The same bytes by place.
    pub(crate) images: Vec<(u64, Image)>,
    /// Root once these are written; `None` if the table is empty.
    pub(crate) root: Option<TableEntry>,
    /// Number of levels of the table.
    pub(crate) depth: u32,
    settled: Vec<Settled>,
}

/// Page or node that was in memory, with its place.
enum Settled {
    Page(Arc<FreshPage>, TableEntry),
    Node(Arc<FreshNode>, Option<TableEntry>),
}

impl WritePlan {
    /// Compares `from` with the later state `to`. `from` is the state that the last header refers to, and is
    /// completely in the file.
    pub(crate) fn new<N: Nodes>(nodes: &N, page_size: u32, from: &Tree, to: &Tree) -> WritePlan {
        let mut planner = Planner {
            nodes,
            plan: WritePlan {
                page_size,
                leaves_reserve: false,
                items: Vec::new(),
                emptied: Vec::new(),
                freed: Vec::new(),
                root: Target::None,
                depth: to.depth,
            },
        };
        let mut old = match from.root {
            Link::Stored(at) => Some(at),
            _ => None,
        };
        let mut old_depth = from.depth;
        // Frees unneeded levels.
        while old_depth > to.depth {
            let Some(at) = old else { break };
            old_depth -= 1;
            old = planner.free_all_but_first(at, old_depth);
        }
        planner.plan.root = match to.depth.checked_sub(1) {
            Some(level) => planner.link(&to.root, level, old, old_depth),
            None => Target::None,
        };
        planner.plan
    }

    /// Returns the number of places that the plan needs.
    pub(crate) fn len(&self) -> u64 {
        self.items.len() as u64
    }

    /// Returns the number of places that must stay free after this commit, for commits that take no more than
    /// they give back. Without them a full file could not shrink, because dropping a page writes nodes.
    /// Returns 0 for a commit that itself gives back what it takes.
    pub(crate) fn reserve(&self) -> u64 {
        let takes = self.len() > self.freed.len() as u64 || self.leaves_reserve;
        match takes && !planted!("cow-no-reserve") {
            true => (RESERVE / u64::from(self.page_size)).max(2 * (u64::from(self.depth) + 1)),
            false => 0,
        }
    }

    /// Returns the number of bytes that the plan writes.
    pub(crate) fn bytes(&self) -> u64 {
        self.len() * u64::from(self.page_size)
    }

    /// Gives each item a place, in ascending order. `places` has as many places as there are items. Returns
    /// `None` if one of them is beyond the largest possible file.
    pub(crate) fn place(self, places: &[Range<u64>], checksums: bool) -> Option<Placed> {
        let mut places = places.iter().cloned().flatten();
        let mut placed = Placed {
            pieces: Vec::with_capacity(self.items.len()),
            images: Vec::with_capacity(self.items.len()),
            root: None,
            depth: self.depth,
            settled: Vec::with_capacity(self.items.len()),
        };
        let mut entries: Vec<TableEntry> = Vec::with_capacity(self.items.len());
        for item in self.items {
            let place = places.next()?;
            let (image, crc, settled): (Image, u32, _) = match item {
                Item::Page(page) => {
                    debug_assert!(checksums || page.crc == 0);
                    let at = TableEntry {
                        place,
                        crc: page.crc,
                    };
                    (page.image.clone(), page.crc, Settled::Page(page, at))
                }
                Item::Node {
                    node,
                    mut bytes,
                    children,
                } => {
                    for (index, item) in children {
                        set_table_entry(&mut bytes, index, entries.get(item).copied());
                    }
                    let crc = place_crc(&bytes);
                    let at = TableEntry { place, crc };
                    (bytes.into(), crc, Settled::Node(node, Some(at)))
                }
            };
            entries.push(TableEntry { place, crc });
            placed
                .pieces
                .push((place_offset(self.page_size, place)?, image.clone()));
            placed.images.push((place, image));
            placed.settled.push(settled);
        }
        let emptied = self.emptied.into_iter();
        placed
            .settled
            .extend(emptied.map(|node| Settled::Node(node, None)));
        placed.root = match self.root {
            Target::None => None,
            Target::Stored(at) => Some(at),
            Target::Item(item) => entries.get(item).copied(),
        };
        if placed.root.is_none() {
            placed.depth = 0;
        }
        Some(placed)
    }
}

impl Placed {
    /// Returns the tree as it is in the file.
    pub(crate) fn tree(&self) -> Tree {
        Tree {
            root: self.root.map_or(Link::None, Link::Stored),
            depth: self.depth,
        }
    }

    /// Records the new places in the pages and nodes that later states share. Call this only once the header
    /// with this number is current, is the first that refers to the places, and views hold it.
    pub(crate) fn publish_places(&self, header: u64) {
        for settled in &self.settled {
            // Each gets one place, because only items without a place are planned.
            let _ = match settled {
                Settled::Page(page, at) => page.home.set(Home { at: *at, header }).is_ok(),
                Settled::Node(node, at) => node.home.set(Home { at: *at, header }).is_ok(),
            };
        }
    }
}

struct Planner<'a, N> {
    nodes: &'a N,
    plan: WritePlan,
}

impl<N: Nodes> Planner<'_, N> {
    /// Plans the target of a link of this level. `old` is the earlier state's entry at the same position. If
    /// the earlier table has fewer levels (`old_depth`), `old` is its root.
    fn link(&mut self, link: &Link, level: u32, old: Option<TableEntry>, old_depth: u32) -> Target {
        let stored = match link {
            Link::None => Target::None,
            Link::Stored(at) => Target::Stored(*at),
            Link::Page(page) => return self.page(page, old),
            Link::Node(node) => match node.home.get() {
                Some(home) => home.at.map_or(Target::None, Target::Stored),
                None => return self.node(node, level, old, old_depth),
            },
        };
        // A different node does not lead to what was there before.
        match (old, stored) {
            (Some(old), Target::Stored(at)) if old.place == at.place => {}
            (Some(old), _) => {
                let top = old_depth.saturating_sub(1).min(level);
                self.free_all(old, top);
            }
            (None, _) => {}
        }
        stored
    }

    fn page(&mut self, page: &Arc<FreshPage>, old: Option<TableEntry>) -> Target {
        let target = match page.home.get() {
            Some(home) => Target::Stored(home.at),
            None => self.item(Item::Page(page.clone())),
        };
        match (old, target) {
            (Some(old), Target::Stored(at)) if old.place == at.place => {}
            (Some(old), _) => self.plan.freed.push(old.place),
            (None, _) => {}
        }
        target
    }

    fn item(&mut self, item: Item) -> Target {
        self.plan.items.push(item);
        Target::Item(self.plan.items.len() - 1)
    }

    fn node(
        &mut self,
        node: &Arc<FreshNode>,
        level: u32,
        old: Option<TableEntry>,
        old_depth: u32,
    ) -> Target {
        // This level is above the root of the earlier state: everything of that state is below the first
        // entry.
        let is_above = level >= old_depth;
        let old_bytes = match old {
            Some(old) if !is_above => {
                self.plan.freed.push(old.place);
                self.node_bytes(old)
            }
            _ => None,
        };
        let old_at = |index: usize| match (is_above, index) {
            (true, 0) => old,
            (true, _) => None,
            (false, _) => old_bytes.as_ref().and_then(|b| table_entry(b, index)),
        };
        let size = self.plan.page_size as usize;
        let mut bytes = match &node.base {
            Some(base) => base.to_vec(),
            None => vec![0; size],
        };
        let mut children = Vec::new();
        for (index, link) in &node.changes {
            let index = usize::from(*index);
            let target = match level {
                0 => self.leaf(link, old_at(index)),
                _ => self.link(link, level - 1, old_at(index), old_depth),
            };
            let entry = match target {
                Target::None => None,
                Target::Stored(at) => Some(at),
                Target::Item(item) => {
                    children.push((index, item));
                    None
                }
            };
            set_table_entry(&mut bytes, index, entry);
        }
        // Frees entries of the earlier state that are not in this node's base and were not changed since.
        // Then the base is not the earlier state's node here, but an empty node that was begun after all of
        // it was dropped.
        if let Some(old_bytes) = &old_bytes {
            let is_changed = |index: usize| {
                let at = |(at, _): &(u16, Link)| usize::from(*at);
                node.changes.binary_search_by_key(&index, at).is_ok()
            };
            for (index, old) in table_entries(old_bytes) {
                let kept = table_entry(&bytes, index).is_some_and(|new| new.place == old.place);
                if !kept && !is_changed(index) {
                    self.free_child(old, level);
                }
            }
        }
        if children.is_empty() && bytes.iter().all(|b| *b == 0) {
            self.plan.emptied.push(node.clone());
            return Target::None;
        }
        self.item(Item::Node {
            node: node.clone(),
            bytes,
            children,
        })
    }

    /// Plans an entry of the lowest level.
    fn leaf(&mut self, link: &Link, old: Option<TableEntry>) -> Target {
        let target = match link {
            Link::Page(page) => return self.page(page, old),
            Link::Stored(at) => Target::Stored(*at),
            Link::None | Link::Node(_) => Target::None,
        };
        match (old, target) {
            (Some(old), Target::Stored(at)) if old.place == at.place => {}
            (Some(old), _) => self.plan.freed.push(old.place),
            (None, _) => {}
        }
        target
    }

    /// Returns the bytes of a node of the earlier state. If it cannot be read, everything below it stays in
    /// use until the next opening. The commit does not need it.
    fn node_bytes(&self, at: TableEntry) -> Option<Image> {
        self.nodes.node(at).ok()
    }

    /// Frees everything that an entry of a node of this level leads to.
    fn free_child(&mut self, at: TableEntry, level: u32) {
        match level {
            0 => self.plan.freed.push(at.place),
            _ => self.free_all(at, level - 1),
        }
    }

    /// Frees a node of this level and everything that it leads to.
    fn free_all(&mut self, at: TableEntry, level: u32) {
        self.plan.freed.push(at.place);
        let Some(bytes) = self.node_bytes(at) else {
            return;
        };
        for (_, child) in table_entries(&bytes) {
            self.free_child(child, level);
        }
    }

    /// Frees a node of this level and all that it leads to, except by its first entry. Returns that entry.
    fn free_all_but_first(&mut self, at: TableEntry, level: u32) -> Option<TableEntry> {
        self.plan.freed.push(at.place);
        let bytes = self.node_bytes(at)?;
        let mut first = None;
        for (index, child) in table_entries(&bytes) {
            match (index, level) {
                // Compared later with the same entry of the later state.
                (0, 1..) => first = Some(child),
                _ => self.free_child(child, level),
            }
        }
        first
    }
}
