//! Checker: walks a whole tree and checks all its invariants.

use crate::chain;
use crate::error::{Error, Result};
use crate::free::FreePage;
use crate::limits::max_cell;
use crate::meta::{META, Meta};
use crate::node::{Node, ValueAt};
use crate::source::Source;
use logforce::pages::ErrorKind;
use std::collections::HashSet;
use std::fmt;

/// Result of a walk through the whole tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// Number of keys in the leaves.
    pub keys: u64,
    /// Number of levels: 1 if the root is a leaf.
    pub height: u8,
    /// Number of pages with keys and values.
    pub leaf_pages: u64,
    /// Number of pages above the leaves.
    pub inner_pages: u64,
    /// Number of pages with values that do not fit into a leaf.
    pub value_pages: u64,
    /// Number of free pages.
    pub free_pages: u64,
    /// Bytes of cells and slots in leaves and inner pages.
    pub used_bytes: u64,
    /// Number of pages in the file.
    pub page_count: u64,
    /// Problems; empty for an intact tree.
    pub problems: Vec<Problem>,
}

impl CheckReport {
    /// Returns true if there are no problems.
    pub fn is_whole(&self) -> bool {
        self.problems.is_empty()
    }
}

/// A violated invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Page in which it was found.
    pub page: u64,
    /// Description of the problem.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {}: {}", self.page, self.what)
    }
}

/// Walks the tree.
pub(crate) fn check(source: &impl Source, meta: &Meta) -> Result<CheckReport> {
    let mut walk = Walk {
        source,
        report: CheckReport {
            height: meta.height,
            page_count: source.page_count(),
            ..CheckReport::default()
        },
        reached: HashSet::from([META]),
    };
    let bounds = Bounds::default();
    walk.node(META, meta.root, meta.top(), true, bounds)?;
    walk.free_list(meta)?;
    walk.unreached();
    for (what, counted, noted) in [
        ("keys", walk.report.keys, meta.keys),
        ("free pages", walk.report.free_pages, meta.free),
    ] {
        if counted != noted {
            walk.problem(
                META,
                format!("its count of {what} is {noted}, but there are {counted}"),
            );
        }
    }
    Ok(walk.report)
}

/// Bounds of the keys of a page: at or above `lower`, and below `upper`.
#[derive(Debug, Clone, Copy, Default)]
struct Bounds<'k> {
    lower: Option<&'k [u8]>,
    upper: Option<&'k [u8]>,
}

struct Walk<'s, S> {
    source: &'s S,
    report: CheckReport,
    reached: HashSet<u64>,
}

impl<S: Source> Walk<'_, S> {
    fn problem(&mut self, page: u64, what: impl Into<String>) {
        let what = what.into();
        self.report.problems.push(Problem { page, what });
    }

    /// Turns damage into a problem of the report. Other errors, which keep the check from reading, are
    /// returned.
    fn noted<T>(&mut self, page: u64, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(Error::Corrupt { page, what }) => {
                self.problem(page, what);
                Ok(None)
            }
            Err(Error::Pages(e)) if e.kind() == ErrorKind::Damaged => {
                self.problem(page, e.to_string());
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// Marks a page as used. Returns false if its number is invalid or the page is already used.
    fn reach(&mut self, by: u64, page: u64) -> bool {
        match self.reached_anew(page) {
            Ok(()) => true,
            Err(what) => {
                self.problem(by, what);
                false
            }
        }
    }

    /// Marks a page like [`reach`](Self::reach), and returns the reason as an error if it fails.
    fn reached_anew(&mut self, page: u64) -> std::result::Result<(), String> {
        if page >= self.report.page_count {
            return Err(format!(
                "it refers to page {page}, beyond the end of the file"
            ));
        }
        match self.reached.insert(page) {
            true => Ok(()),
            false => Err(format!(
                "it refers to page {page}, which is also used elsewhere"
            )),
        }
    }

    fn node(
        &mut self,
        by: u64,
        number: u64,
        level: u8,
        is_root: bool,
        bounds: Bounds<'_>,
    ) -> Result<()> {
        if !self.reach(by, number) {
            return Ok(());
        }
        let page = self.source.page(number);
        let Some(page) = self.noted(number, page)? else {
            return Ok(());
        };
        let node = Node::parse(number, &page, level);
        let Some(node) = self.noted(number, node)? else {
            return Ok(());
        };
        match node.is_leaf() {
            true => self.report.leaf_pages += 1,
            false => self.report.inner_pages += 1,
        }
        self.report.used_bytes += node.used() as u64;
        if node.count() == 0 && !(is_root && node.is_leaf()) {
            self.problem(number, "it has no keys");
        }
        let layout = layout(&node, page.len());
        self.noted(number, layout)?;
        let order = order(&node, bounds);
        if self.noted(number, order)?.is_none() {
            return Ok(());
        }
        match node.is_leaf() {
            true => self.values(&node),
            false => self.children(&node, bounds),
        }
    }

    fn children(&mut self, node: &Node<'_>, bounds: Bounds<'_>) -> Result<()> {
        for i in 0..=node.count() {
            let child = node.child(i);
            let Some(child) = self.noted(node.number(), child)? else {
                continue;
            };
            let lower = i.checked_sub(1).and_then(|i| node.key(i).ok());
            let bounds = Bounds {
                lower: lower.or(bounds.lower),
                upper: node.key(i).ok().or(bounds.upper),
            };
            self.node(node.number(), child, node.level() - 1, false, bounds)?;
        }
        Ok(())
    }

    fn values(&mut self, node: &Node<'_>) -> Result<()> {
        self.report.keys += node.count() as u64;
        for i in 0..node.count() {
            let value = node.value(i);
            let Some(ValueAt::Chain { first, len }) = self.noted(node.number(), value)? else {
                continue;
            };
            let mut by = node.number();
            let source = self.source;
            let walked = chain::walk(source, first, len, |page, _| {
                // Ends at a page that is already used. Otherwise a cycle in a chain would be followed
                // for as long as the claimed length of the value.
                let reached = self.reached_anew(page);
                reached.map_err(|what| Error::Corrupt { page: by, what })?;
                self.report.value_pages += 1;
                by = page;
                Ok(())
            });
            self.noted(by, walked)?;
        }
        Ok(())
    }

    fn free_list(&mut self, meta: &Meta) -> Result<()> {
        let (mut by, mut next) = (META, meta.free_list);
        while next != 0 && self.reach(by, next) {
            self.report.free_pages += 1;
            by = next;
            let page = self.source.page(by);
            let Some(page) = self.noted(by, page)? else {
                return Ok(());
            };
            let free = FreePage::parse(by, &page);
            let Some(free) = self.noted(by, free)? else {
                return Ok(());
            };
            for i in 0..free.count {
                if self.reach(by, free.entry(i)) {
                    self.report.free_pages += 1;
                }
            }
            next = free.next;
        }
        Ok(())
    }

    /// Reports unused pages that are not free. A run of pages is one problem, because the file's number
    /// of pages can be forged.
    fn unreached(&mut self) {
        let mut reached: Vec<u64> = self.reached.iter().copied().collect();
        reached.push(self.report.page_count);
        reached.sort_unstable();
        let mut next = 0;
        for page in reached {
            if page > next {
                let count = page - next;
                let what = match count {
                    1 => "no page refers to it, and it is not free".to_owned(),
                    _ => format!(
                        "no page refers to it, and it is not free; the same is true of the {} after it",
                        count - 1
                    ),
                };
                self.problem(next, what);
            }
            next = page + 1;
        }
    }
}

/// Checks that cells do not overlap, that none is too long, and that the page's header has the right
/// number of used bytes.
fn layout(node: &Node<'_>, page_size: usize) -> Result<()> {
    let mut cells = Vec::with_capacity(node.count());
    for i in 0..node.count() {
        cells.push(node.cell_range(i)?);
    }
    cells.sort_unstable_by_key(|cell| cell.start);
    if cells.windows(2).any(|pair| pair[0].end > pair[1].start) {
        return Err(node.corrupt("its cells overlap"));
    }
    if let Some(long) = cells.iter().find(|cell| cell.len() > max_cell(page_size)) {
        return Err(node.corrupt(format!("it has a cell of {} bytes", long.len())));
    }
    let used: usize = cells
        .iter()
        .map(|cell| crate::node::SLOT + cell.len())
        .sum();
    match used == node.used() {
        true => Ok(()),
        false => Err(node.corrupt(format!(
            "its header counts {} used bytes, but its cells have {used}",
            node.used()
        ))),
    }
}

/// Checks that keys ascend, within the bounds from the pages above.
fn order(node: &Node<'_>, bounds: Bounds<'_>) -> Result<()> {
    let mut before = None;
    for i in 0..node.count() {
        let key = node.key(i)?;
        if before.is_some_and(|before| before >= key) {
            return Err(node.corrupt(format!("the key of cell {i} is not above the one before")));
        }
        let is_within = bounds.lower.is_none_or(|lower| lower <= key)
            && bounds.upper.is_none_or(|upper| key < upper);
        if !is_within {
            return Err(node.corrupt(format!("the key of cell {i} belongs to another page")));
        }
        before = Some(key);
    }
    Ok(())
}
