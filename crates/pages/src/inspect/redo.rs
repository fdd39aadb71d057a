//! Inspection of the log of a logged file, beyond what the data file holds.

use super::info::{ChangeInfo, ChangeKind, Damage, RedoInfo, RedoSummary};
use super::{Inspector, Out, ROUNDS, Visit};
use crate::error::Result;
use crate::files::LOG;
use crate::logged::open::meta_of;
use logforce_core::Visit as LogVisit;
use logforce_core::{Damage as LogDamage, Error as LogError, Inspector as LogInspector, Record};
use logforce_format::{LoggedState, Lsn, PageChange, PageFileHeader, PageFileKind, Redo};
use std::collections::BTreeMap;

/// Pages that the log changes, and the resulting number of pages.
pub(super) struct InLog {
    /// Header with which the log was read.
    pub(super) header: PageFileHeader,
    /// False if the log was truncated while it was read, and records may be missing.
    pub(super) is_whole: bool,
    from: Lsn,
    to: Lsn,
    commits: u64,
    bytes: u64,
    pub(super) page_count: u64,
    /// For each page that the log changes: true if the newest version has contents.
    pub(super) pages: BTreeMap<u64, bool>,
    /// Pages from this one on that are not in `pages` are dropped.
    pub(super) dropped_from: u64,
}

impl InLog {
    fn new(header: PageFileHeader, from: Lsn) -> InLog {
        InLog {
            header,
            is_whole: true,
            from,
            to: from,
            commits: 0,
            bytes: 0,
            page_count: header.page_count,
            pages: BTreeMap::new(),
            dropped_from: u64::MAX,
        }
    }

    pub(super) fn commit(&self) -> u64 {
        self.header.commit.saturating_add(self.commits)
    }

    /// Returns if the newest version of the page has contents, or `None` if that version is not in the log.
    pub(super) fn newest(&self, page: u64) -> Option<bool> {
        let dropped = (page >= self.dropped_from).then_some(false);
        self.pages.get(&page).copied().or(dropped)
    }

    pub(super) fn summary(&self) -> RedoSummary {
        RedoSummary {
            from: self.from,
            to: self.to,
            commits: self.commits,
            bytes: self.bytes,
            pages: self.pages.values().filter(|written| **written).count() as u64,
        }
    }

    /// Applies a record. Returns the reason in words if it does not fit.
    fn add(&mut self, record: &Record) -> std::result::Result<RedoInfo, String> {
        let redo = Redo::decode(&record.data, self.header.page_size).map_err(|e| e.to_string())?;
        let drop_from = redo.resize.drop_from;
        if drop_from < u64::MAX {
            self.dropped_from = self.dropped_from.min(drop_from);
            for (_, written) in self.pages.range_mut(drop_from..) {
                *written = false;
            }
        }
        let mut last_written = None;
        let mut changes = Vec::with_capacity(redo.pages.len());
        for (page, change) in &redo.pages {
            let (kind, bytes) = match change {
                PageChange::Image(image) => (ChangeKind::Image, image.len()),
                PageChange::Ranges(ranges) => {
                    let bytes = ranges.iter().map(|(_, bytes)| bytes.len()).sum();
                    (ChangeKind::Ranges, bytes)
                }
                PageChange::Discard => (ChangeKind::Discard, 0),
            };
            if kind == ChangeKind::Ranges && self.pages.get(page) != Some(&true) {
                return Err(format!(
                    "it changes parts of page {page}, but the log holds no image of that page"
                ));
            }
            let is_written = kind != ChangeKind::Discard;
            if is_written {
                last_written = Some(*page);
            }
            self.pages.insert(*page, is_written);
            changes.push(ChangeInfo {
                page: *page,
                kind,
                bytes: bytes as u64,
            });
        }
        self.page_count = redo.resize.page_count(self.page_count, last_written);
        self.commits += 1;
        self.bytes += record.data.len() as u64;
        Ok(RedoInfo {
            commit: self.commit(),
            start: record.start,
            end: record.end,
            drop_from: (drop_from < u64::MAX).then_some(drop_from),
            at_least: redo.resize.at_least,
            changes,
        })
    }
}

/// Reads the log once. Returns what it holds, or the first damage.
pub(super) fn read_undamaged(
    inspector: &Inspector,
    each: &mut dyn FnMut(&Record),
) -> Result<std::result::Result<InLog, Damage>> {
    let (in_log, damages) = read_once(inspector, &mut |record, _| each(record))?;
    Ok(match damages.into_iter().next() {
        Some(damage) => Err(damage),
        None => Ok(in_log),
    })
}

/// Reads the records that the data file may not hold. Reports to `out` the records if `is_shown`, damage of the
/// log, and anything that keeps an opening from using it.
///
/// Beside a writer the log may be truncated meanwhile. Then it is read again, up to [`ROUNDS`] times in all.
pub(super) fn read(inspector: &Inspector, out: &mut Out<'_>, is_shown: bool) -> Result<InLog> {
    let mut rounds = 0;
    loop {
        rounds += 1;
        let mut shown = Vec::new();
        let (in_log, damages) = read_once(inspector, &mut |_, info| {
            if is_shown {
                shown.push(info);
            }
        })?;
        if in_log.is_whole || rounds == ROUNDS {
            shown.iter().for_each(|info| out.visit(Visit::Redo(info)));
            damages.iter().for_each(|damage| out.damage(damage));
            return Ok(in_log);
        }
    }
}

/// Reads the records once, and returns them with the damage.
///
/// If a checkpoint truncates the log meanwhile, records are missing, and parts of pages come before their images.
/// A new header and then a new front precede the removal. So a contradiction is not damage if both have changed,
/// and the result is [not whole](InLog::is_whole).
fn read_once(
    inspector: &Inspector,
    each: &mut dyn FnMut(&Record, RedoInfo),
) -> Result<(InLog, Vec<Damage>)> {
    let header = inspector.header_now()?;
    let PageFileKind::Logged(state) = header.kind else {
        return Ok((InLog::new(header, Lsn::ORIGIN), Vec::new()));
    };
    let from = state.redo_from;
    let mut found = InLog::new(header, from);
    let log = match open(inspector, &header, &state)? {
        Ok(log) => log,
        Err(why) => {
            found.is_whole = inspector.header_now()?.sequence == header.sequence;
            let damage = found.is_whole.then(|| of_log(why, 0));
            return Ok((found, damage.into_iter().collect()));
        }
    };
    let anchor = log.summary().anchor;
    let mut wrong = None;
    let mut damages: Vec<LogDamage> = Vec::new();
    let report = log.walk(&mut |visit| {
        match visit {
            LogVisit::Record { record, .. } if record.start >= from => match found.add(record) {
                Ok(info) => each(record, info),
                Err(why) => {
                    wrong = Some((record.start, why));
                    return false;
                }
            },
            LogVisit::Damage(damage) => damages.push(damage.clone()),
            _ => {}
        }
        true
    })?;
    found.is_whole = inspector.header_now()?.sequence == header.sequence
        || !inspector.is_truncated_above(from)?;
    if !found.is_whole {
        return Ok((found, Vec::new()));
    }
    if let Some((at, why)) = wrong {
        let damage = of_log(format!("the redo record at LSN {at}: {why}"), 0);
        return Ok((found, vec![damage]));
    }
    found.to = report.end.max(from);
    let damages = decided(inspector, damages)?;
    let mut all: Vec<Damage> = Vec::new();
    for damage in &damages {
        let file = damage.file.as_deref().map(|file| format!("{LOG}/{file}"));
        all.push(Damage {
            what: format!("the log from LSN {} on", damage.lsn),
            page: None,
            file: file.unwrap_or_else(|| LOG.to_owned()),
            offset: damage.offset,
            found: damage.found.clone(),
            // An opening reads from the lower of the two positions on.
            refused: damage.lsn >= from.min(anchor),
        });
    }
    if damages.is_empty() && report.end < from && !inspector.is_locked()? {
        let why = format!(
            "the data file needs the log up to LSN {from}, but it ends at {}: the log is older than the data file",
            report.end
        );
        all.push(of_log(why, 0));
    }
    Ok((found, all))
}

/// Opens the log if an opening with this header would use it. Returns the reason in words if not.
pub(super) fn open(
    inspector: &Inspector,
    header: &PageFileHeader,
    state: &LoggedState,
) -> Result<std::result::Result<LogInspector, String>> {
    let log = match inspector.open_log() {
        Ok(log) => log,
        Err(e @ LogError::Io { .. }) => return Err(e.into()),
        Err(LogError::NoLog { why, .. }) => return Ok(Err(format!("the log is missing: {why}"))),
        Err(LogError::Damaged(damage)) => {
            return Ok(Err(format!("the log cannot be opened: {damage}")));
        }
        Err(e) => return Ok(Err(format!("the log cannot be opened: {e}"))),
    };
    let summary = log.summary();
    if summary.log_id != state.log_id {
        return Ok(Err(format!(
            "the data file names the log {}, but the log there is {}",
            state.log_id, summary.log_id
        )));
    }
    match log.meta() {
        // Left behind by a creation that a crash interrupted. The opening completes it.
        Ok(None) => {}
        Ok(Some(meta)) if meta == meta_of(header.id) => {}
        Ok(Some(_)) => {
            return Ok(Err(format!(
                "the log belongs to another page file, not to {}",
                header.id
            )));
        }
        Err(e @ LogError::Io { .. }) => return Err(e.into()),
        Err(e) => return Ok(Err(format!("the log cannot be opened: {e}"))),
    }
    if summary.front > state.redo_from {
        return Ok(Err(format!(
            "the data file needs the log from LSN {} on, but it begins at {}: the data file is older than the log",
            state.redo_from, summary.front
        )));
    }
    Ok(Ok(log))
}

/// Returns the apparent damage of the log that is real. While the log is being written, truncated parts are
/// not damage, and neither are parts that are whole in a later read.
fn decided(inspector: &Inspector, mut damages: Vec<LogDamage>) -> Result<Vec<LogDamage>> {
    for _ in 0..ROUNDS {
        if damages.is_empty() || !inspector.in_use && !inspector.is_locked()? {
            break;
        }
        let log = match inspector.open_log() {
            Ok(log) => log,
            Err(e @ LogError::Io { .. }) => return Err(e.into()),
            Err(_) => continue,
        };
        let first = log.summary().segments.first().map(|s| s.start);
        let mut still = Vec::new();
        log.walk(&mut |visit| {
            if let LogVisit::Damage(damage) = visit {
                still.push(damage.lsn);
            }
            true
        })?;
        damages.retain(|d| first.is_none_or(|first| d.lsn >= first) && still.contains(&d.lsn));
    }
    Ok(damages)
}

fn of_log(found: String, offset: u64) -> Damage {
    Damage {
        what: "the log".to_owned(),
        page: None,
        file: LOG.to_owned(),
        offset,
        found,
        refused: true,
    }
}
