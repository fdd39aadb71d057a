//! Inspection of the pages and the map of a logged file.
//!
//! Beside a writer, a page that does not match its checksum may be damaged, or another process may be writing
//! it. Every page that is being written has a version in the log until its checkpoint ends. So a page that
//! does not match is read again, and then the log is read. If the header is the same before and after that,
//! no checkpoint has ended in between. Then a page that is not in the log is damaged. A page whose newest
//! version is in the log counts as that version, whatever the data file holds.

use super::info::{Damage, Held, NextOpening, PageInfo, VerifyReport, Visit};
use super::redo::{self, InLog};
use super::{Inspector, Out, ROUNDS};
use crate::error::{Error, Result};
use crate::file_read;
use crate::files::{DATA, MAP};
use crate::logged::map::PageMap;
use crate::logged::read::{holds, page_offset, read_page, sectors_with_data};
use logforce_device::File;
use logforce_format::{MAP_SECTOR_ENTRIES, MAP_SECTOR_LEN, MAX_PAGES, MapEntry, page_crc, planted};
use std::collections::BTreeSet;
use std::sync::Arc;

const ENTRIES: u64 = MAP_SECTOR_ENTRIES as u64;

pub(super) fn walk(inspector: &Inspector, out: &mut Out<'_>) -> Result<VerifyReport> {
    let in_log = redo::read(inspector, out, true)?;
    let summary = in_log.summary();
    let mut report = VerifyReport {
        commit: in_log.commit(),
        page_count: in_log.page_count,
        present: 0,
        checked_bytes: 0,
        in_use: 0,
        unreachable: 0,
        redo: Some(summary),
        table: None,
        damages: 0,
        next_opening: match summary.commits {
            0 => NextOpening::Ready,
            commits => NextOpening::Redoes {
                commits,
                bytes: summary.to.0 - summary.from.0,
            },
        },
    };
    let Some(file) = inspector.open_map()? else {
        out.damage(&Damage {
            what: "the page map".to_owned(),
            page: None,
            file: MAP.to_owned(),
            offset: 0,
            found: "the file is missing".to_owned(),
            refused: true,
        });
        return Ok(report);
    };
    let data = Data::of(inspector, file);
    let mut sectors = data.map.used_sectors(0..MAX_PAGES.div_ceil(ENTRIES))?;
    sectors.extend(in_log.pages.keys().map(|page| page / ENTRIES));
    let with_data = sectors_with_data(&*inspector.data, inspector.header.page_size as usize);
    let with_data = with_data.map_err(Error::io("look for data in", inspector.path.join(DATA)))?;
    sectors.extend(with_data);
    let mut unsettled = BTreeSet::new();
    for sector in sectors {
        if out.stopped {
            break;
        }
        let mut pages = Vec::new();
        let count = in_log.header.page_count;
        let checked = data.check(sector, count, &|page| in_log.newest(page), &mut pages)?;
        report.checked_bytes += checked.bytes;
        let is_settled = checked.damages.is_empty() || data.is_settled()?;
        for page in &mut pages {
            match page.held {
                Held::Dropped => {}
                // For pages at or above the header's count a map may hold any entry.
                held if page.page >= in_log.page_count
                    || page.page >= count && !matches!(held, Held::InLog) =>
                {
                    report.unreachable += 1;
                    continue;
                }
                Held::Damaged if !is_settled => {
                    page.held = Held::InUse;
                    report.present += 1;
                }
                _ => report.present += 1,
            }
            out.visit(Visit::Page(page));
        }
        match is_settled {
            true => checked.damages.iter().for_each(|d| out.damage(d)),
            false => drop(unsettled.insert(sector)),
        }
    }
    report.in_use = data.settle(unsettled, out)? + u64::from(!in_log.is_whole);
    Ok(report)
}

/// Data file and its map.
pub(super) struct Data<'a> {
    pub(super) inspector: &'a Inspector,
    pub(super) map: PageMap,
}

/// Result of reading sectors again that did not match.
pub(super) enum Settled {
    /// Mismatches that are damage. The others were being written.
    Damages(Vec<Damage>),
    /// Sectors with a mismatch that cannot be decided yet.
    Not(BTreeSet<u64>),
}

/// Result of checking the pages of a sector of the map.
struct Checked {
    damages: Vec<Damage>,
    /// Number of bytes that were verified.
    bytes: u64,
}

impl Data<'_> {
    pub(super) fn of(inspector: &Inspector, map: Arc<dyn File>) -> Data<'_> {
        let path = inspector.path.join(MAP);
        Data {
            inspector,
            map: PageMap::of(map, path, &inspector.header),
        }
    }

    /// Returns true if no process has the file open, none had it open when the inspection began, and the
    /// header is still the same.
    fn is_settled(&self) -> Result<bool> {
        let inspector = self.inspector;
        let is_quiet = !inspector.in_use && !inspector.is_locked()?;
        let is_same = is_quiet && inspector.header_now()?.sequence == inspector.header.sequence;
        Ok(planted!("inspected-map-believed", true, else is_same))
    }

    /// Checks the pages of a sector. The header counts `count` pages in all. `newest` returns `Some` for a
    /// page whose newest version is in the log: true if that version has contents.
    fn check(
        &self,
        sector: u64,
        count: u64,
        newest: &dyn Fn(u64) -> Option<bool>,
        pages: &mut Vec<PageInfo>,
    ) -> Result<Checked> {
        let inspector = self.inspector;
        let mut checked = Checked {
            damages: Vec::new(),
            bytes: 0,
        };
        let mut is_read = true;
        let entries = match self.map.read(sector) {
            Ok(read) => {
                checked.bytes += MAP_SECTOR_LEN as u64;
                read.entries
            }
            Err(e) => {
                checked.damages.push(inspector.damage(e, None, false)?);
                is_read = false;
                [MapEntry::Absent; MAP_SECTOR_ENTRIES]
            }
        };
        let checksums = inspector.header.checksums;
        let first = pages.len();
        for (page, entry) in (sector * ENTRIES..).zip(entries) {
            let crc = match entry {
                MapEntry::Absent | MapEntry::Dropped => None,
                MapEntry::Present { crc } => Some(crc),
            };
            let held = match (newest(page), crc) {
                (Some(true), _) => Held::InLog,
                (Some(false), Some(_)) => Held::Dropped,
                (None, Some(_)) if checksums => Held::Whole,
                (None, Some(_)) => Held::Unverified,
                // Bytes of such a page are not leftovers: a checkpoint clears the pages behind the last
                // header's end before a header covers them.
                (None, None) if page < count && is_read => match self.lost(page, entry)? {
                    Some(damage) => {
                        checked.damages.push(damage);
                        Held::Damaged
                    }
                    None => continue,
                },
                (_, None) => continue,
            };
            pages.push(PageInfo {
                page,
                place: None,
                offset: page_offset(inspector.header.page_size as usize, page),
                crc: crc.filter(|_| checksums),
                held,
            });
        }
        // For pages at or above the header's count any entry is allowed.
        let is_read =
            |p: &PageInfo| p.page < count && matches!(p.held, Held::Whole | Held::Unverified);
        let follows = |a: &PageInfo, b: &PageInfo| b.page == a.page + 1 && is_read(a) && is_read(b);
        for run in pages[first..].chunk_by_mut(follows) {
            if run.first().is_some_and(is_read) {
                self.check_run(run, &mut checked)?;
            }
        }
        Ok(checked)
    }

    /// Returns the damage if the map has lost a page: the entry says that the page was dropped, or that it is
    /// absent although the data file holds bytes of it.
    pub(super) fn lost(&self, page: u64, entry: MapEntry) -> Result<Option<Damage>> {
        let inspector = self.inspector;
        let mut buf = vec![0; inspector.header.page_size as usize];
        let offset = page_offset(buf.len(), page);
        let is_lost = match entry {
            MapEntry::Dropped => Ok(true),
            _ => holds(&*inspector.data, offset, &mut buf),
        };
        match is_lost.map_err(Error::io("read", inspector.path.join(DATA)))? {
            false => Ok(None),
            true => {
                let damage = inspector.damage(self.map.lost(page, entry), Some(page), false);
                damage.map(Some)
            }
        }
    }

    /// Reads adjacent pages at once. Pages that do not match are read again one by one.
    fn check_run(&self, run: &mut [PageInfo], checked: &mut Checked) -> Result<()> {
        let inspector = self.inspector;
        let size = inspector.header.page_size as usize;
        let Some(start) = run.first().map(|p| p.offset) else {
            return Ok(());
        };
        let mut bytes = vec![0; run.len() * size];
        let read = file_read::read_all(&*inspector.data, start, &mut bytes);
        let is_read = read.map_err(Error::io("read", inspector.path.join(DATA)))?;
        for (page, bytes) in run.iter_mut().zip(bytes.chunks_mut(size)) {
            let fits = page.crc.is_none_or(|crc| crc == page_crc(page.page, bytes));
            if is_read.is_ok() && fits {
                checked.bytes += size as u64;
                continue;
            }
            match self.read(page, bytes)? {
                None => checked.bytes += size as u64,
                Some(damage) => {
                    page.held = Held::Damaged;
                    checked.damages.push(damage);
                }
            }
        }
        Ok(())
    }

    /// Reads a page from the data file and returns its damage, if any.
    pub(super) fn read(&self, page: &PageInfo, buf: &mut [u8]) -> Result<Option<Damage>> {
        let inspector = self.inspector;
        let range = page.offset..page.offset.saturating_add(buf.len() as u64);
        let path = inspector.path.join(DATA);
        let read = file_read::read_with_retries(&*inspector.data, range, || {
            read_page(&*inspector.data, &path, page.page, page.crc, buf)
        });
        match read {
            Ok(()) => Ok(None),
            Err(e) => Ok(Some(inspector.damage(e, Some(page.page), false)?)),
        }
    }

    /// Decides which mismatches in these sectors are damage, and reports them. Returns the number of pages
    /// and sectors that cannot be decided.
    fn settle(&self, mut sectors: BTreeSet<u64>, out: &mut Out<'_>) -> Result<u64> {
        for _ in 0..ROUNDS {
            if sectors.is_empty() || out.stopped {
                return Ok(0);
            }
            match self.settle_once(&sectors)? {
                Settled::Damages(damages) => {
                    damages.iter().for_each(|damage| out.damage(damage));
                    return Ok(0);
                }
                Settled::Not(left) => sectors = left,
            }
        }
        Ok(sectors.len() as u64)
    }

    /// Reads these sectors and the log, and decides which mismatches are damage, unless a checkpoint ends
    /// meanwhile.
    pub(super) fn settle_once(&self, sectors: &BTreeSet<u64>) -> Result<Settled> {
        let inspector = self.inspector;
        let before = inspector.header_now()?;
        let count = before.page_count;
        let mut bad = Vec::new();
        for sector in sectors {
            let checked = self.check(*sector, count, &|_| None, &mut Vec::new())?;
            bad.extend(checked.damages.into_iter().map(|d| (*sector, d)));
        }
        let in_log = self.log_now()?;
        bad.retain(|(_, d)| d.page.is_none_or(|page| in_log.newest(page).is_none()));
        let is_same = |now: u64| now == before.sequence && now == in_log.header.sequence;
        Ok(match is_same(inspector.header_now()?.sequence) {
            true => Settled::Damages(bad.into_iter().map(|(_, damage)| damage).collect()),
            false => Settled::Not(bad.into_iter().map(|(sector, _)| sector).collect()),
        })
    }

    /// Reads the log as it is now. Its damage is not reported again.
    fn log_now(&self) -> Result<InLog> {
        let mut quiet = Out {
            visit: &mut |_| true,
            stopped: false,
            damages: 0,
            refused: None,
        };
        redo::read(self.inspector, &mut quiet, false)
    }
}
