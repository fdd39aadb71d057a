//! What openings gave up at damage. It stays on the disk, under names that tell, until the log's
//! owner discards it: it was acknowledged once, and somebody may want it back.
//!
//! A range that was given up has a *marker*, a small file that says which range it is and why.
//! Segments that hold a part of it stay where they are; those that a truncation would make spares of,
//! or remove, get another name instead.

use crate::error::{Damage, Error, Result};
use crate::names;
use crate::storage::cuts::Cuts;
use crate::storage::reads::read;
use crate::storage::regained::by_batches;
use crate::storage::segment_header::{Found, read_header};
use crate::storage::voids::Voids;
use logforce_device::{AlignedBuf, Barrier, Directory, OpenFile, ReadSource, Write};
use logforce_format::{LogId, Lsn, RecoveryCase};
use std::sync::Arc;

/// The longest text of a marker that is read, in bytes.
const TEXT: usize = 4096;

/// A part of the log that an opening with [`OnDamage::Truncate`](crate::OnDamage::Truncate) gave up.
/// Its records are no part of the log any more; its bytes are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenUp {
    /// Where it begins.
    pub from: Lsn,
    /// Exclusive end: where that opening went on.
    pub to: Lsn,
    /// Where that opening found damage; `None`, as the following, where nothing is left that says so.
    pub lsn: Option<Lsn>,
    /// The row of recovery's decision table.
    pub case: Option<RecoveryCase>,
    /// The file that was damaged or missing, if one could be named.
    pub file: Option<String>,
    /// Where in the file, bytes.
    pub offset: Option<u64>,
    /// What was found there: why bytes were rejected, or the system's error. Empty if nothing says so.
    pub why: String,
    /// Files that are kept for it alone, and their sizes in bytes. What lies in segments of the log
    /// is not among them. A file that holds parts of several ranges is listed with the first.
    pub files: Vec<(String, u64)>,
}

impl GivenUp {
    fn of(from: Lsn, to: Lsn) -> GivenUp {
        GivenUp {
            from,
            to,
            lsn: None,
            case: None,
            file: None,
            offset: None,
            why: String::new(),
            files: Vec::new(),
        }
    }
}

/// Writes down that `[from, to)` is given up, durably. Before the batch that says so to the log: a
/// crash in between leaves a marker of a range that is not void, which the next opening removes. The
/// other way round it would leave a range whose files nobody keeps.
pub(crate) fn mark(dir: &Arc<dyn Directory>, from: Lsn, to: Lsn, why: &Damage) -> Result<()> {
    let name = names::cut(from, to);
    let path = dir.path().join(&name);
    let mut text = words(from, to, why);
    while text.len() > TEXT {
        text.pop();
    }
    // A crash may have left one; nothing is written over another's words.
    match dir.remove(&name) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::io("remove", path)(e));
        }
        _ => {}
    }
    let file = dir
        .open(&name, OpenFile::CREATE)
        .map_err(Error::io("create", &path))?;
    let mut buf = AlignedBuf::zeroed(text.len(), 4096);
    buf.copy_from_slice(text.as_bytes());
    let range = 0..buf.len();
    let ticket = file.submit(Write {
        offset: 0,
        buf,
        range,
        through: false,
    });
    file.complete(ticket)
        .result
        .map_err(Error::io("write", &path))?;
    file.barrier(Barrier::Full)
        .map_err(Error::io("sync", &path))?;
    dir.sync().map_err(Error::io("sync directory", dir.path()))
}

/// What a marker says: first to people, then line by line to [`told`].
fn words(from: Lsn, to: Lsn, why: &Damage) -> String {
    let file = match &why.file {
        Some(file) => format!("file: {file}\noffset: {}\n", why.offset),
        None => String::new(),
    };
    format!(
        "Logforce gave up LSN {from} to {to} of this log, because of damage.\n\
         What can be read of it is shown by `logforce dump --salvage` and saved by `logforce salvage --given-up`.\n\
         LSN: {}\ncase: {}\n{file}durable to: {}\ncause: {}\n",
        why.lsn,
        why.case,
        why.durable_to,
        why.found.replace('\n', " ")
    )
}

/// Puts what a marker says into the fields for it. Of one that somebody has changed, the text.
fn told(text: &str, given_up: &mut GivenUp) {
    let line = |what: &str| text.lines().find_map(|l| l.strip_prefix(what));
    given_up.lsn = line("LSN: ").and_then(|l| l.parse().ok()).map(Lsn);
    given_up.case =
        line("case: ").and_then(|l| RecoveryCase::ALL.into_iter().find(|c| c.label() == l));
    given_up.file = line("file: ").map(str::to_owned);
    given_up.offset = line("offset: ").and_then(|o| o.parse().ok());
    given_up.why = line("cause: ").unwrap_or(text).to_owned();
}

/// Renames `name`, if there is such a file, to a name that tells that it was in the way. What had
/// been set aside under that name before is evidence as well: it keeps it.
pub(crate) fn set_aside(dir: &Arc<dyn Directory>, name: &str) -> Result<()> {
    let missing = |e: &std::io::Error| e.kind() == std::io::ErrorKind::NotFound;
    if dir.open(name, OpenFile::READ).is_err_and(|e| missing(&e)) {
        return Ok(());
    }
    let entries = dir.entries().map_err(Error::io("list", dir.path()))?;
    let is_free = |to: &String| !entries.iter().any(|e| e.name == *to);
    let mut all = (0..).map(|n| names::set_aside(name, n));
    let to = all.find(is_free).unwrap_or_default();
    match dir.rename(name, &to) {
        Err(e) if !missing(&e) => Err(Error::io("rename", dir.path().join(name))(e)),
        _ => Ok(()),
    }
}

/// The ranges that count: those that are void, or lie below the front. Markers of others were left by
/// an opening that went no further; they are removed.
pub(crate) fn settle(
    dir: &Arc<dyn Directory>,
    cuts: Cuts,
    voids: &Voids,
    front: Lsn,
) -> Result<Cuts> {
    let mut kept = Cuts::new();
    for (from, to) in cuts {
        let void = voids.covering(from.max(front));
        if to <= front || void.is_some_and(|(_, end)| to <= end) {
            kept.push((from, to));
            continue;
        }
        let name = names::cut(from, to);
        match dir.remove(&name) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io("remove", dir.path().join(name))(e));
            }
            _ => {}
        }
    }
    Ok(kept)
}

/// What the directory keeps of what was given up in the log `id`.
pub(crate) fn kept(dir: &Arc<dyn Directory>, id: LogId) -> Result<Vec<GivenUp>> {
    let entries = dir.entries().map_err(Error::io("list", dir.path()))?;
    let mut found = Vec::new();
    for entry in &entries {
        let Some((from, to)) = names::cut_range(&entry.name) else {
            continue;
        };
        let mut given_up = GivenUp::of(from, to);
        told(&text(dir, &entry.name)?, &mut given_up);
        found.push(given_up);
    }
    found.sort_by_key(|g| (g.from, g.to));
    for entry in entries {
        if !names::is_kept(&entry.name) {
            continue;
        }
        let range = match read_header(dir, &entry.name) {
            Ok(Found::Whole(h)) if h.log_id == id => Some((h.start, h.end())),
            Ok(_) | Err(Error::NewerFormat { .. }) => {
                names::kept_start(&entry.name).map(|s| (s, s))
            }
            Err(e) if e.is_not_found() => None,
            Err(e) => return Err(e),
        };
        let Some((start, mut end)) = range else {
            continue;
        };
        let of = found
            .iter_mut()
            .find(|g| g.from < end.max(start.plus(1)) && start < g.to);
        if of.is_none() {
            // Its marker is gone: its batches say what it was. Where none does, nothing was given up
            // with it. It was in the way of an opening that lost nothing.
            match by_batches(dir, &entry.name, Some(id), start, Lsn::MAX, &[])? {
                Some(segment) if end == start => end = segment.header.end(),
                Some(_) => {}
                None => continue,
            }
        }
        match of {
            Some(given_up) => given_up.files.push((entry.name, entry.len)),
            None => found.push(GivenUp {
                files: vec![(entry.name, entry.len)],
                ..GivenUp::of(start, end)
            }),
        }
    }
    Ok(found)
}

fn text(dir: &Arc<dyn Directory>, name: &str) -> Result<String> {
    let path = dir.path().join(name);
    let file = match dir.open(name, OpenFile::READ) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(String::new()),
        file => file.map_err(Error::io("open", &path))?,
    };
    let mut bytes = vec![0; TEXT];
    let n = read(&*file, &path, 0, &mut bytes, ReadSource::Cache)?.unwrap_or(0);
    Ok(String::from_utf8_lossy(&bytes[..n]).trim_end().to_owned())
}

/// Removes what is kept, the markers last: a crash in between leaves words about files that are gone,
/// never files that nobody knows of. Answers how many bytes that freed.
pub(crate) fn discard(dir: &Arc<dyn Directory>) -> Result<u64> {
    let entries = dir.entries().map_err(Error::io("list", dir.path()))?;
    let (kept, rest): (Vec<_>, Vec<_>) = entries.into_iter().partition(|e| names::is_kept(&e.name));
    let markers = rest
        .into_iter()
        .filter(|e| names::cut_range(&e.name).is_some());
    let mut freed = 0;
    for (entry, last) in kept
        .into_iter()
        .map(|e| (e, false))
        .chain(markers.map(|e| (e, true)))
    {
        match dir.remove(&entry.name) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io("remove", dir.path().join(&entry.name))(e));
            }
            _ if !last => freed += entry.len,
            _ => {}
        }
    }
    dir.sync()
        .map_err(Error::io("sync directory", dir.path()))?;
    Ok(freed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_says_in_fields_what_was_damaged() {
        let damage = Damage {
            lsn: Lsn(8192),
            case: RecoveryCase::SegmentLost,
            path: "/data/log".into(),
            file: Some("0000000000002000.seg".to_owned()),
            offset: 0,
            found: "this segment is unusable: segment header checksum".to_owned(),
            durable_to: Lsn(9000),
            in_reading: false,
            truncatable: true,
        };
        let mut given_up = GivenUp::of(Lsn(8192), Lsn(65536));
        told(&words(Lsn(8192), Lsn(65536), &damage), &mut given_up);
        assert_eq!(given_up.lsn, Some(damage.lsn));
        assert_eq!(given_up.case, Some(damage.case));
        assert_eq!(given_up.file, damage.file);
        assert_eq!(given_up.offset, Some(0));
        assert_eq!(given_up.why, damage.found);
        // By hand.
        told("the disk fell off the table", &mut given_up);
        assert_eq!(given_up.why, "the disk fell off the table");
        assert_eq!((given_up.lsn, given_up.file), (None, None));
    }
}
