//! Listing the segments in a directory.

use crate::error::{Damage, Error, Result};
use crate::names;
use crate::storage::segment::Segment;
use crate::storage::segment_header::{HeaderRead, read_header, read_header_past_cache};
use crate::storage::segments::Segments;
use logforce_device::{DirEntry, Directory};
use logforce_format::{LogId, Lsn, RecoveryCase};
use std::sync::Arc;

/// The segments of a log, and other files in its directory.
pub(crate) struct Listing {
    pub(crate) segments: Segments,
    pub(crate) spares: Vec<(String, u64)>,
    pub(crate) preparing: Vec<String>,
    /// Error of a segment that was removed or renamed between the listing and reading its header.
    pub(crate) vanished: Option<Error>,
}

/// Lists the directory and reads the segment headers. Fails if two segments claim the same part of the log,
/// because it is unknown which one is right.
pub(crate) fn list(dir: &Arc<dyn Directory>, id: LogId) -> Result<Listing> {
    list_of(dir, id, names_of(dir)?)
}

/// Reads the segment headers as [`list`] does, from existing directory entries.
pub(crate) fn list_of(
    dir: &Arc<dyn Directory>,
    id: LogId,
    entries: Vec<DirEntry>,
) -> Result<Listing> {
    let (listing, claims) = take(dir, id, entries)?;
    match claims.into_iter().next() {
        Some(claim) => Err(Error::Damaged(Box::new(claim))),
        None => Ok(listing),
    }
}

/// Lists the directory as [`list`] does, for salvage. If several segments claim the same part of the log, one
/// counts, preferably one whose name matches.
pub(crate) fn list_usable(dir: &Arc<dyn Directory>, id: LogId) -> Result<Listing> {
    let (mut listing, claims) = take(dir, id, names_of(dir)?)?;
    for claim in claims {
        let name = claim.file.unwrap_or_default();
        listing.segments.rejected.push((name, claim.found));
    }
    Ok(listing)
}

fn names_of(dir: &Arc<dyn Directory>) -> Result<Vec<DirEntry>> {
    dir.entries().map_err(Error::io("list", dir.path()))
}

/// Reads the headers of the segments in `entries`. Also returns the segments that claim a part of the log
/// that another one contains. Skips files that a writer has removed meanwhile.
fn take(
    dir: &Arc<dyn Directory>,
    id: LogId,
    mut entries: Vec<DirEntry>,
) -> Result<(Listing, Vec<Damage>)> {
    let mut listing = Listing {
        segments: Segments::default(),
        spares: Vec::new(),
        preparing: Vec::new(),
        vanished: None,
    };
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    let mut whole = Vec::new();
    for entry in entries.into_iter().filter(|e| e.is_file) {
        match names::kind(&entry.name) {
            names::NameKind::Spare => listing.spares.push((entry.name, entry.len)),
            names::NameKind::Preparing => listing.preparing.push(entry.name),
            names::NameKind::Segment => match read_header(dir, &entry.name) {
                Err(e) if e.is_not_found() => listing.vanished = Some(e),
                Err(e) => return Err(e),
                Ok(HeaderRead::Broken { why, .. }) => {
                    listing.segments.rejected.push((entry.name, why));
                }
                Ok(HeaderRead::Whole(h)) if h.log_id != id => {
                    let why = format!("it belongs to log {}", h.log_id);
                    listing.segments.rejected.push((entry.name, why));
                }
                Ok(HeaderRead::Whole(h)) => {
                    // The cache may return the header of an earlier use of the file.
                    let is_misnamed = names::claimed_start(&entry.name) != Some(h.start);
                    let again = match is_misnamed {
                        true => read_header_past_cache(dir, &entry.name)?,
                        false => None,
                    };
                    let again = again.filter(|again| again.log_id == id);
                    whole.push((entry.name, again.unwrap_or(h)));
                }
            },
            _ => {}
        }
    }
    whole.sort_by_key(|(name, h)| names::claimed_start(name) != Some(h.start));
    let mut claims = Vec::new();
    for (name, header) in whole {
        let Some(other) = listing.segments.overlapping(&header) else {
            let segment = Segment::new(dir.clone(), name, header);
            listing.segments.insert(Arc::new(segment));
            continue;
        };
        let found = if other.header.start == header.start {
            format!(
                "it claims the same part of the log as {}: if one of the two is a copy, move the copy away, and keep it",
                other.name()
            )
        } else {
            format!(
                "it claims [{}, {}) of the log, but {} claims [{}, {}): one of the two is wrong",
                header.start,
                header.end(),
                other.name(),
                other.header.start,
                other.header.end()
            )
        };
        claims.push(Damage {
            lsn: header.start,
            case: RecoveryCase::SegmentLost,
            path: dir.path().to_owned(),
            file: Some(name),
            offset: 0,
            found,
            durable_to: Lsn::ORIGIN,
            in_reading: false,
            repairable: false,
            needed_from: None,
        });
    }
    Ok((listing, claims))
}
