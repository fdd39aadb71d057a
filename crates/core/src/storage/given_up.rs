//! What openings have given up at damage. It stays on disk under special names until the log's
//! owner discards it: it was acknowledged once, and the owner may want it back.
//!
//! Each range that was given up has a *marker*, a small file with the range and the reason.
//! Segments that hold a part of the range stay where they are; a truncation renames them instead of
//! reusing or removing them.

use crate::error::{Damage, Error, Result};
use crate::names;
use crate::storage::headerless::segment_from_batches;
use crate::storage::ranges::GivenUpRanges;
use crate::storage::reads::read;
use crate::storage::segment_header::{Found, read_header};
use crate::storage::voids::Voids;
use crate::storage::writes::write;
use logforce_device::{AlignedBuf, Barrier, Directory, OpenFile, ReadSource};
use logforce_format::{LogId, Lsn, RecoveryCase};
use std::sync::Arc;

/// Maximum length of a marker's text, bytes.
const TEXT: usize = 4096;

/// A range that an opening with [`OnDamage::Truncate`](crate::OnDamage::Truncate) has given up. Its
/// records are no longer part of the log; its bytes are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenUp {
    /// Where it begins.
    pub from: Lsn,
    /// Exclusive end: where that opening has continued.
    pub to: Lsn,
    /// Where that opening found damage; `None`, as in the following fields, if the marker is gone.
    pub lsn: Option<Lsn>,
    /// The row of recovery's decision table.
    pub case: Option<RecoveryCase>,
    /// The file that was damaged or missing, if one could be named.
    pub file: Option<String>,
    /// Offset in the file, bytes.
    pub offset: Option<u64>,
    /// What was found there: why bytes were rejected, or the system's error. Empty if unknown.
    pub why: String,
    /// Files that are kept only for it, and their sizes in bytes, without segments of the log. A
    /// file that holds parts of several ranges is listed with the first.
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

/// Writes the marker of `[from, to)` durably, before the batch that voids the range. A crash in
/// between leaves a marker of a range that is not void, which the next opening removes. In the
/// other order, a crash would leave a range whose files are not kept.
pub(crate) fn write_marker(
    dir: &Arc<dyn Directory>,
    from: Lsn,
    to: Lsn,
    why: &Damage,
) -> Result<()> {
    let name = names::marker(from, to);
    let path = dir.path().join(&name);
    let mut text = marker_text(from, to, why);
    while text.len() > TEXT {
        text.pop();
    }
    // Replaces a marker that a crash has left, instead of writing over its text.
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
    write(&*file, 0, buf).map_err(Error::io("write", &path))?;
    file.barrier(Barrier::Full)
        .map_err(Error::io("sync", &path))?;
    dir.sync().map_err(Error::io("sync directory", dir.path()))
}

/// The text of a marker: first for people, then line by line for [`parse_marker`].
fn marker_text(from: Lsn, to: Lsn, why: &Damage) -> String {
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

/// Parses a marker into the fields. Of a marker in another format, keeps the text.
fn parse_marker(text: &str, given_up: &mut GivenUp) {
    let line = |what: &str| text.lines().find_map(|l| l.strip_prefix(what));
    given_up.lsn = line("LSN: ").and_then(|l| l.parse().ok()).map(Lsn);
    given_up.case =
        line("case: ").and_then(|l| RecoveryCase::ALL.into_iter().find(|c| c.label() == l));
    given_up.file = line("file: ").map(str::to_owned);
    given_up.offset = line("offset: ").and_then(|o| o.parse().ok());
    given_up.why = line("cause: ").unwrap_or(text).to_owned();
}

/// Sets the file `name` aside, if it exists: renames it to a name that no segment gets. A file that
/// was set aside before keeps its name: it is evidence as well.
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

/// Returns the ranges that are void or lie below the front, and removes the markers of others: an
/// opening has left them that crashed before its first batch.
pub(crate) fn remove_stale_markers(
    dir: &Arc<dyn Directory>,
    ranges: GivenUpRanges,
    voids: &Voids,
    front: Lsn,
) -> Result<GivenUpRanges> {
    let mut kept = GivenUpRanges::new();
    for (from, to) in ranges {
        let void = voids.covering(from.max(front));
        if to <= front || void.is_some_and(|(_, end)| to <= end) {
            kept.push((from, to));
            continue;
        }
        let name = names::marker(from, to);
        match dir.remove(&name) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io("remove", dir.path().join(name))(e));
            }
            _ => {}
        }
    }
    Ok(kept)
}

/// The ranges of the log `id` that were given up and that the directory still keeps.
pub(crate) fn list(dir: &Arc<dyn Directory>, id: LogId) -> Result<Vec<GivenUp>> {
    let entries = dir.entries().map_err(Error::io("list", dir.path()))?;
    let mut found = Vec::new();
    for entry in &entries {
        let Some((from, to)) = names::marker_range(&entry.name) else {
            continue;
        };
        let mut given_up = GivenUp::of(from, to);
        parse_marker(&text(dir, &entry.name)?, &mut given_up);
        found.push(given_up);
    }
    found.sort_by_key(|g| (g.from, g.to));
    for entry in entries {
        if !names::is_kept(&entry.name) {
            continue;
        }
        let header = match read_header(dir, &entry.name) {
            Ok(Found::Whole(h)) if h.log_id == id => Some(h),
            Ok(_) | Err(Error::NewerFormat { .. }) => None,
            Err(e) if e.is_not_found() => continue,
            Err(e) => return Err(e),
        };
        let Some(named) = names::kept_start(&entry.name) else {
            continue;
        };
        let is_marked = |from: Lsn, to: Lsn| found.iter().any(|g| g.from < to && from < g.to);
        // A header that says something else than the name may be that of the truncated segment which the
        // file held before. That one was not given up, unless a marker says so.
        let header = header.filter(|h| {
            let is_elsewhere = is_marked(h.start, h.end()) && !is_marked(named, named.plus(1));
            h.start == named || is_elsewhere
        });
        let (start, mut end) = header.map_or((named, named), |h| (h.start, h.end()));
        let of = found
            .iter_mut()
            .find(|g| g.from < end.max(start.plus(1)) && start < g.to);
        if of.is_none() {
            // Its marker is gone, and its batches identify it. Without any, nothing was given up
            // with it: an opening that lost nothing has set it aside.
            match segment_from_batches(dir, &entry.name, Some(id), start, Lsn::MAX, &[])? {
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

/// Removes what is kept, the markers last: a crash in between leaves markers without files, never
/// files without a marker. Returns how many bytes that freed.
pub(crate) fn discard(dir: &Arc<dyn Directory>) -> Result<u64> {
    let entries = dir.entries().map_err(Error::io("list", dir.path()))?;
    let (kept, rest): (Vec<_>, Vec<_>) = entries.into_iter().partition(|e| names::is_kept(&e.name));
    let markers = rest
        .into_iter()
        .filter(|e| names::marker_range(&e.name).is_some());
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
        parse_marker(&marker_text(Lsn(8192), Lsn(65536), &damage), &mut given_up);
        assert_eq!(given_up.lsn, Some(damage.lsn));
        assert_eq!(given_up.case, Some(damage.case));
        assert_eq!(given_up.file, damage.file);
        assert_eq!(given_up.offset, Some(0));
        assert_eq!(given_up.why, damage.found);
        // In another format.
        parse_marker("the disk fell off the table", &mut given_up);
        assert_eq!(given_up.why, "the disk fell off the table");
        assert_eq!((given_up.lsn, given_up.file), (None, None));
    }
}
