//! What segments a directory holds.

use crate::reads::read;
use crate::segments::{Segment, Segments};
use crate::{Damage, Error, Result, names};
use logforce_device::{Directory, Entry, OpenFile};
use logforce_format::{Case, LogId, Lsn, SegmentHeader, planted};
use std::sync::Arc;

/// A segment file as found in the directory.
pub(crate) enum Found {
    /// Its header is whole.
    Whole(SegmentHeader),
    /// Its header is not, and why.
    Broken(String),
}

/// Reads the header of the file `name`.
pub(crate) fn read_header(dir: &Arc<dyn Directory>, name: &str) -> Result<Found> {
    use logforce_device::ReadSource;
    use logforce_format::{FORMAT_VERSION, SEGMENT_HEADER_LEN, SegmentReject};
    let path = dir.path().join(name);
    let file = dir
        .open(name, OpenFile::READ)
        .map_err(Error::io("open", &path))?;
    let mut bytes = [0; SEGMENT_HEADER_LEN];
    // Looked at more than once: a header that a drive does not give just once would cost the whole
    // segment.
    let n = match read(&*file, &path, 0, &mut bytes, ReadSource::Cache) {
        Err(e) if planted!("header-error-is-damage") => return Ok(Found::Broken(e.to_string())),
        read => read?,
    };
    let n = match n {
        Ok(n) => n,
        Err(lost) => {
            let found = format!("its header cannot be read: {}", lost.found);
            return Ok(Found::Broken(found));
        }
    };
    match SegmentHeader::decode(&bytes[..n]) {
        Ok(header) => {
            let len = file.len().map_err(Error::io("look at", &path))?;
            if len < header.len && !planted!("short-segment-accepted") {
                return Ok(Found::Broken(format!(
                    "it has {len} bytes, its header says {}",
                    header.len
                )));
            }
            Ok(Found::Whole(header))
        }
        Err(SegmentReject::Version(version)) if version > FORMAT_VERSION => {
            Err(Error::NewerFormat { path, version })
        }
        Err(reject) => Ok(Found::Broken(reject.to_string())),
    }
}

/// The segments that a directory holds of the log `id`.
pub(crate) struct Listing {
    pub(crate) segments: Segments,
    /// Files named like segments that are none of this log's, and why.
    pub(crate) broken: Vec<(String, String)>,
    pub(crate) spares: Vec<(String, u64)>,
    pub(crate) preparing: Vec<String>,
    /// A segment went, or got another name, between the listing and the look at its header.
    pub(crate) overtaken: Option<Error>,
}

/// Lists the directory and reads the headers. Segments that claim the same part of the log are an
/// error: which of them to believe nobody knows.
pub(crate) fn list(dir: &Arc<dyn Directory>, id: LogId) -> Result<Listing> {
    list_of(dir, id, names_of(dir)?)
}

/// As [`list`], of a listing that was taken before.
pub(crate) fn list_of(dir: &Arc<dyn Directory>, id: LogId, entries: Vec<Entry>) -> Result<Listing> {
    let (listing, claims) = take(dir, id, entries)?;
    match claims.into_iter().next() {
        Some(claim) => Err(Error::Damaged(Box::new(claim))),
        None => Ok(listing),
    }
}

/// As [`list`], for salvage: of several that claim the same part of the log one counts, that with
/// the name of its place before others.
pub(crate) fn list_usable(dir: &Arc<dyn Directory>, id: LogId) -> Result<Listing> {
    let (mut listing, claims) = take(dir, id, names_of(dir)?)?;
    for claim in claims {
        let name = claim.file.unwrap_or_default();
        listing.broken.push((name, claim.found));
    }
    Ok(listing)
}

fn names_of(dir: &Arc<dyn Directory>) -> Result<Vec<Entry>> {
    dir.entries().map_err(Error::io("list", dir.path()))
}

/// Reads the headers of what was listed; besides, what is wrong with each segment that claims
/// a part of the log that another one has. A file that a writer takes away meanwhile is left out.
fn take(
    dir: &Arc<dyn Directory>,
    id: LogId,
    mut entries: Vec<Entry>,
) -> Result<(Listing, Vec<Damage>)> {
    let mut listing = Listing {
        segments: Segments::default(),
        broken: Vec::new(),
        spares: Vec::new(),
        preparing: Vec::new(),
        overtaken: None,
    };
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    let mut whole = Vec::new();
    for entry in entries.into_iter().filter(|e| e.is_file) {
        match names::kind(&entry.name) {
            names::NameKind::Spare => listing.spares.push((entry.name, entry.len)),
            names::NameKind::Preparing => listing.preparing.push(entry.name),
            names::NameKind::GivenUp => {
                listing.segments.cuts.extend(names::cut_range(&entry.name));
            }
            names::NameKind::Segment => match read_header(dir, &entry.name) {
                Err(e) if e.is_not_found() => listing.overtaken = Some(e),
                Err(e) => return Err(e),
                Ok(Found::Broken(why)) => listing.broken.push((entry.name, why)),
                Ok(Found::Whole(h)) if h.log_id != id => {
                    listing
                        .broken
                        .push((entry.name, format!("it belongs to log {}", h.log_id)));
                }
                Ok(Found::Whole(h)) => whole.push((entry.name, h)),
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
                "it claims the same place as {}: move the copy away",
                other.name()
            )
        } else {
            format!(
                "it claims [{}, {}) of the log, of which {} claims [{}, {}): one of the two is not what it was",
                header.start,
                header.end(),
                other.name(),
                other.header.start,
                other.header.end()
            )
        };
        claims.push(Damage {
            lsn: header.start,
            case: Case::SegmentLost,
            path: dir.path().to_owned(),
            file: Some(name),
            offset: 0,
            found,
            durable_to: Lsn::ORIGIN,
            in_reading: false,
            truncatable: false,
        });
    }
    Ok((listing, claims))
}
