//! Inspection of the page table of a copy-on-write file, and of everything that it leads to.
//!
//! Beside a writer: a place that a header refers to is overwritten only after both slots hold later headers.
//! So a mismatch is damage if the current header is then at most one later than the header of the walk.
//! Otherwise the walk looks for the same pages in the table of the current header.

use super::info::{
    Damage, Held, NextOpening, NodeInfo, PageInfo, TableSummary, VerifyReport, Visit,
};
use super::{Inspector, Out, ROUNDS};
use crate::changes::Image;
use crate::cow::node_store::{NodeStore, What};
use crate::cow::table_scan::{self, Length, Node, Visitor};
use crate::error::{Error, Result};
use crate::files::DATA;
use logforce_format::{
    CopyOnWriteRoot, PageFileHeader, PageFileKind, TableEntry, planted, table_entries,
};

pub(super) fn medium(inspector: &Inspector, cache: usize) -> NodeStore {
    NodeStore::new(
        inspector.data.clone(),
        inspector.path.join(DATA),
        inspector.system.runtime(),
        inspector.header.page_size,
        inspector.header.checksums,
        cache,
    )
}

pub(super) fn walk(
    inspector: &Inspector,
    root: &CopyOnWriteRoot,
    out: &mut Out<'_>,
) -> Result<VerifyReport> {
    let medium = medium(inspector, 0);
    let (mut header, mut root) = (inspector.header, *root);
    if let Err(e) = Length::of(&medium)?.check(&medium, &root) {
        out.damage(&inspector.damage(e, None, true)?);
    }
    let mut report = VerifyReport {
        commit: header.commit,
        page_count: header.page_count,
        present: 0,
        checked_bytes: 0,
        in_use: 0,
        unreachable: 0,
        redo: None,
        table: None,
        damages: 0,
        next_opening: NextOpening::Ready,
    };
    let mut wanted = None;
    for round in 0..=ROUNDS {
        let mut look = Look {
            inspector,
            medium: &medium,
            header: &header,
            wanted,
            out,
            again: Vec::new(),
            nodes: 0,
            pages: 0,
            verified: 0,
            is_last: round == ROUNDS,
            damages_in_table: 0,
        };
        let used = table_scan::walk(&medium, &header, &root, Length::of(&medium)?, &mut look)?;
        let is_whole = look.damages_in_table == 0 && look.again.is_empty();
        let Look {
            again,
            nodes,
            pages,
            verified,
            ..
        } = look;
        report.present += pages;
        report.checked_bytes += verified;
        if round == 0 {
            let is_known = is_whole && !out.stopped;
            report.table = Some(TableSummary {
                nodes,
                depth: root.depth,
                places: root.places_end,
                free: is_known.then(|| root.places_end.saturating_sub(used.count())),
            });
        }
        if again.is_empty() || round == ROUNDS {
            report.in_use = again.len() as u64;
            break;
        }
        header = inspector.header_now()?;
        let PageFileKind::CopyOnWrite(now) = header.kind else {
            break;
        };
        root = now;
        wanted = Some(joined(again));
    }
    Ok(report)
}

/// Joins ranges that touch. They must be in ascending order.
fn joined(ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (first, last) in ranges {
        match joined.last_mut() {
            Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
            _ => joined.push((first, last)),
        }
    }
    joined
}

struct Look<'a, 'v> {
    inspector: &'a Inspector,
    medium: &'a NodeStore,
    /// Header of the table.
    header: &'a PageFileHeader,
    /// Pages to check, as ascending ranges; `None` for all.
    wanted: Option<Vec<(u64, u64)>>,
    out: &'a mut Out<'v>,
    /// Pages that were being written, to be checked again.
    again: Vec<(u64, u64)>,
    nodes: u64,
    pages: u64,
    /// Number of verified bytes.
    verified: u64,
    is_last: bool,
    damages_in_table: u64,
}

impl Look<'_, '_> {
    /// Returns true if a mismatch is damage, because the place cannot have been overwritten.
    fn is_decided(&self) -> Result<bool> {
        let now = self.inspector.header_now()?.sequence;
        let is_kept = now <= self.header.sequence.saturating_add(1);
        Ok(planted!("inspected-table-believed", true, else is_kept))
    }

    /// Returns those of these pages that are wanted. The others have been visited.
    fn wanted_of(&self, (first, last): (u64, u64)) -> Vec<(u64, u64)> {
        let Some(wanted) = &self.wanted else {
            return vec![(first, last)];
        };
        let clipped = wanted.iter().map(|w| (w.0.max(first), w.1.min(last)));
        clipped.filter(|(first, last)| first <= last).collect()
    }

    /// Reports damage in the table above these pages. `refused` is true if an opening would fail.
    fn note(&mut self, error: Error, pages: (u64, u64), refused: bool) -> Result<()> {
        if self.is_decided()? {
            self.damages_in_table += 1;
            let damage: Damage = self.inspector.damage(error, None, refused)?;
            self.out.damage(&damage);
        } else {
            let again = self.wanted_of(pages);
            self.again.extend(again);
        }
        Ok(())
    }

    fn visit_page(&mut self, page: u64, at: TableEntry, held: Held) {
        self.pages += 1;
        let crc = self.medium.checksums.then_some(at.crc);
        self.out.visit(Visit::Page(&PageInfo {
            page,
            place: Some(at.place),
            offset: self.medium.offset(at).unwrap_or(u64::MAX),
            crc,
            held,
        }));
    }
}

impl Visitor for Look<'_, '_> {
    fn wants(&self, pages: (u64, u64)) -> bool {
        let is_in = |wanted: &Vec<(u64, u64)>| {
            let next = wanted.partition_point(|(_, last)| *last < pages.0);
            wanted.get(next).is_some_and(|(first, _)| *first <= pages.1)
        };
        !self.out.stopped && self.wanted.as_ref().is_none_or(is_in)
    }

    fn node(&mut self, node: &Node, image: &Image) {
        self.nodes += 1;
        self.verified += image.len() as u64;
        if self.wanted.is_none() {
            self.out.visit(Visit::Node(&NodeInfo {
                level: node.level,
                place: node.at.place,
                offset: self.medium.offset(node.at).unwrap_or(u64::MAX),
                crc: node.at.crc,
                first: node.pages.0,
                last: node.pages.1,
                entries: table_entries(image).count() as u32,
            }));
        }
    }

    fn page(&mut self, page: u64, at: TableEntry) -> Result<()> {
        let mut bytes = vec![0; self.medium.page_size as usize];
        match self.medium.read(What::Page(page), at, &mut bytes) {
            Ok(()) => {
                self.verified += bytes.len() as u64;
                let held = match self.medium.checksums {
                    true => Held::Whole,
                    false => Held::Unverified,
                };
                self.visit_page(page, at, held);
            }
            Err(e @ Error::Damaged { .. }) => {
                if self.is_decided()? {
                    let damage = self.inspector.damage(e, Some(page), false)?;
                    self.visit_page(page, at, Held::Damaged);
                    self.out.damage(&damage);
                } else {
                    if self.is_last {
                        self.visit_page(page, at, Held::InUse);
                    }
                    self.again.push((page, page));
                }
            }
            Err(e) => return Err(e),
        }
        Ok(())
    }

    fn lost(&mut self, error: Error, pages: (u64, u64)) -> Result<()> {
        self.note(error, pages, false)
    }

    fn damaged(&mut self, error: Error, pages: (u64, u64)) -> Result<()> {
        self.note(error, pages, true)
    }
}
