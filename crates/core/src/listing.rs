//! What segments a directory holds.

use crate::reads::read;
use crate::segments::{Segment, Segments};
use crate::{Damage, Error, Result, names};
use logforce_device::{AlignedBuf, DirEntry, Directory, OpenFile, ReadSource};
use logforce_format::{
    FORMAT_VERSION, LogId, Lsn, MAX_WRITE_UNIT, RecoveryCase, SEGMENT_HEADER_LEN, SegmentHeader,
    SegmentReject, planted,
};
use std::sync::Arc;

/// A segment file as found in the directory.
pub(crate) enum Found {
    /// Its header is whole.
    Whole(SegmentHeader),
    /// Its header is not.
    Broken {
        /// Why.
        why: String,
        /// For its bytes: another look may show others.
        bytes: bool,
    },
}

impl Found {
    fn broken(why: String) -> Found {
        Found::Broken { why, bytes: false }
    }
}

/// Reads the header of the file `name`. Looked at more than once where it is not whole: an error, or
/// wrong bytes, that a drive or the way to it gives just once would cost the whole segment.
pub(crate) fn read_header(dir: &Arc<dyn Directory>, name: &str) -> Result<Found> {
    let mut sources = [ReadSource::Medium, ReadSource::Cache].into_iter();
    let mut answer = read_header_once(dir, name)?;
    while let Found::Broken { bytes: true, .. } = answer
        && let Some(source) = sources.next()
        && !planted!("one-look-at-the-medium")
    {
        match look_at_header(dir, name, source) {
            // Where nothing can be read past the cache.
            Err(e) if e.is_unsupported() => {}
            again => answer = again?,
        }
    }
    Ok(answer)
}

/// As [`read_header`], where a header that is not whole costs nothing.
pub(crate) fn read_header_once(dir: &Arc<dyn Directory>, name: &str) -> Result<Found> {
    look_at_header(dir, name, ReadSource::Cache)
}

fn look_at_header(dir: &Arc<dyn Directory>, name: &str, source: ReadSource) -> Result<Found> {
    let path = dir.path().join(name);
    let file = dir
        .open(name, OpenFile::READ)
        .map_err(Error::io("open", &path))?;
    // Past the cache a device takes whole units only.
    let unit = MAX_WRITE_UNIT as usize;
    let (mut small, mut aligned);
    let buf: &mut [u8] = match source {
        ReadSource::Cache => {
            small = [0; SEGMENT_HEADER_LEN];
            &mut small
        }
        ReadSource::Medium => {
            aligned = AlignedBuf::zeroed(unit, unit);
            &mut aligned
        }
    };
    let n = match read(&*file, &path, 0, buf, source) {
        Err(e) if planted!("header-error-is-damage") => return Ok(Found::broken(e.to_string())),
        read => read?,
    };
    let n = match n {
        Ok(n) => n,
        Err(lost) => {
            let found = format!("its header cannot be read: {}", lost.found);
            return Ok(Found::broken(found));
        }
    };
    match SegmentHeader::decode(&buf[..n.min(SEGMENT_HEADER_LEN)]) {
        Ok(header) => {
            let len = file.len().map_err(Error::io("look at", &path))?;
            if len < header.len && !planted!("short-segment-accepted") {
                return Ok(Found::broken(format!(
                    "it has {len} bytes, its header says {}",
                    header.len
                )));
            }
            Ok(Found::Whole(header))
        }
        Err(SegmentReject::Version(version)) if version > FORMAT_VERSION => {
            Err(Error::NewerFormat { path, version })
        }
        Err(reject) => Ok(Found::Broken {
            why: reject.to_string(),
            bytes: true,
        }),
    }
}

/// The segments that a directory holds of the log `id`.
pub(crate) struct Listing {
    pub(crate) segments: Segments,
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

/// As [`list`], for salvage: of several that claim the same part of the log one counts, that with
/// the name of its place before others.
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

/// Reads the headers of what was listed; besides, what is wrong with each segment that claims
/// a part of the log that another one has. A file that a writer takes away meanwhile is left out.
fn take(
    dir: &Arc<dyn Directory>,
    id: LogId,
    mut entries: Vec<DirEntry>,
) -> Result<(Listing, Vec<Damage>)> {
    let mut listing = Listing {
        segments: Segments::default(),
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
                Ok(Found::Broken { why, .. }) => {
                    listing.segments.rejected.push((entry.name, why));
                }
                Ok(Found::Whole(h)) if h.log_id != id => {
                    let why = format!("it belongs to log {}", h.log_id);
                    listing.segments.rejected.push((entry.name, why));
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
            case: RecoveryCase::SegmentLost,
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
