use crate::{Damage, Error, Result, names};
use logforce_device::sync::{Mutex, MutexGuard};
use logforce_device::{Access, Directory, File, OpenFile};
use logforce_format::{Case, LogId, Lsn, SegmentHeader};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

/// How far apart the index's points are, bytes of log.
const INDEX_STEP: u64 = 64 << 10;
/// How many segments stay open for reading.
const OPEN_FOR_READING: usize = 32;

/// A file that holds a part of the log.
pub(crate) struct Segment {
    pub(crate) header: SegmentHeader,
    dir: Arc<dyn Directory>,
    state: Mutex<SegmentState>,
}

struct SegmentState {
    name: String,
    file: Option<Arc<dyn File>>,
    /// The handle is the writer's: it stays open until the segment is full and forced.
    writing: bool,
    /// Some batches' positions, so that reading in the middle need not walk from the start.
    index: BTreeSet<Lsn>,
}

impl Segment {
    pub(crate) fn new(dir: Arc<dyn Directory>, name: String, header: SegmentHeader) -> Self {
        let state = SegmentState {
            name,
            file: None,
            writing: false,
            index: BTreeSet::new(),
        };
        Segment {
            header,
            dir,
            state: Mutex::new(state),
        }
    }

    fn state(&self) -> MutexGuard<'_, SegmentState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn name(&self) -> String {
        self.state().name.clone()
    }

    pub(crate) fn set_name(&self, name: String) {
        self.state().name = name;
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join(self.name())
    }

    /// Where in the file `lsn` lies.
    pub(crate) fn offset(&self, lsn: Lsn) -> u64 {
        lsn.since(self.header.start)
    }

    /// Whether a batch can begin at `lsn`, or, at its start, behind the header.
    pub(crate) fn begins_batch(&self, lsn: Lsn) -> bool {
        let unit = u64::from(self.header.write_unit);
        lsn == self.header.start
            || lsn >= self.header.first_batch() && self.offset(lsn).is_multiple_of(unit)
    }

    /// An open handle, for reading at least.
    pub(crate) fn file(&self) -> Result<Arc<dyn File>> {
        let name = {
            let state = self.state();
            if let Some(file) = &state.file {
                return Ok(file.clone());
            }
            state.name.clone()
        };
        let file = self
            .dir
            .open(&name, OpenFile::READ)
            .map_err(Error::io("open", self.dir.path().join(&name)))?;
        Ok(self.state().file.get_or_insert(file).clone())
    }

    /// Hands in the handle that the writer will use.
    pub(crate) fn set_writer(&self, file: Arc<dyn File>) {
        let mut state = self.state();
        state.file = Some(file);
        state.writing = true;
    }

    /// Opens the segment for writing, unless it is.
    pub(crate) fn open_writer(&self, direct: bool) -> Result<()> {
        let name = {
            let state = self.state();
            if state.writing {
                return Ok(());
            }
            state.name.clone()
        };
        let how = OpenFile {
            access: Access::Write,
            direct,
        };
        let file = self
            .dir
            .open(&name, how)
            .map_err(Error::io("open for writing", self.dir.path().join(&name)))?;
        self.set_writer(file);
        Ok(())
    }

    /// The writer is done with it. Its handle goes on serving readers.
    pub(crate) fn writer_done(&self) {
        self.state().writing = false;
    }

    fn close_reader(&self) {
        let file = {
            let mut state = self.state();
            if state.writing {
                None
            } else {
                state.file.take()
            }
        };
        drop(file);
    }

    /// Remembers that a batch begins at `lsn`.
    pub(crate) fn note_batch(&self, lsn: Lsn) {
        let mut state = self.state();
        let near = state
            .index
            .range(..=lsn)
            .next_back()
            .is_some_and(|p| lsn.since(*p) < INDEX_STEP);
        if !near {
            state.index.insert(lsn);
        }
    }

    /// A batch's position at or below `lsn`, from where to walk.
    pub(crate) fn index_below(&self, lsn: Lsn) -> Lsn {
        self.state()
            .index
            .range(..=lsn)
            .next_back()
            .copied()
            .unwrap_or(self.header.first_batch())
    }
}

/// The segments of a log, by their start.
#[derive(Default)]
pub(crate) struct Segments {
    by_start: BTreeMap<Lsn, Arc<Segment>>,
    recent: VecDeque<Arc<Segment>>,
}

impl Segments {
    pub(crate) fn insert(&mut self, segment: Arc<Segment>) {
        self.by_start.insert(segment.header.start, segment);
    }

    /// Takes in the segment of the log `id` that begins at `at`, if a file of that name is it and
    /// claims no part of what another one has. Says whether it is.
    pub(crate) fn learn(&mut self, dir: &Arc<dyn Directory>, id: LogId, at: Lsn) -> bool {
        let name = names::segment(at);
        let header = match read_header(dir, &name) {
            Ok(Found::Whole(h)) if h.log_id == id && h.start == at => h,
            _ => return false,
        };
        let is_free = self.overlapping(&header).is_none();
        if is_free {
            self.insert(Arc::new(Segment::new(dir.clone(), name, header)));
        }
        is_free
    }

    /// The segment that holds `lsn`.
    pub(crate) fn containing(&self, lsn: Lsn) -> Option<Arc<Segment>> {
        let (_, s) = self.by_start.range(..=lsn).next_back()?;
        s.header.contains(lsn).then(|| s.clone())
    }

    /// One that holds a part of what a segment with this header would.
    fn overlapping(&self, header: &SegmentHeader) -> Option<Arc<Segment>> {
        let (_, last) = self.by_start.range(..header.end()).next_back()?;
        (last.header.end() > header.start).then(|| last.clone())
    }

    /// All of them, in order.
    pub(crate) fn all(&self) -> Vec<Arc<Segment>> {
        self.by_start.values().cloned().collect()
    }

    /// Bytes of all of them.
    pub(crate) fn bytes(&self) -> u64 {
        self.by_start.values().map(|s| s.header.len).sum()
    }

    /// Those that begin above `lsn`, in order.
    pub(crate) fn above(&self, lsn: Lsn) -> Vec<Arc<Segment>> {
        use std::ops::Bound::{Excluded, Unbounded};
        self.by_start
            .range((Excluded(lsn), Unbounded))
            .map(|(_, s)| s.clone())
            .collect()
    }

    /// Takes out those that end at or below `lsn`.
    pub(crate) fn take_below(&mut self, lsn: Lsn) -> Vec<Arc<Segment>> {
        let mut gone = Vec::new();
        while let Some(first) = self.by_start.first_entry() {
            if first.get().header.end() > lsn {
                break;
            }
            gone.push(first.remove());
        }
        self.recent.retain(|s| s.header.end() > lsn);
        gone
    }

    /// Takes out those that begin at or above `lsn`.
    pub(crate) fn take_from(&mut self, lsn: Lsn) -> Vec<Arc<Segment>> {
        self.by_start.split_off(&lsn).into_values().collect()
    }

    /// Notes that a segment is being read; returns one that may be closed instead.
    pub(crate) fn touch(&mut self, segment: &Arc<Segment>) -> Option<Arc<Segment>> {
        if self.recent.back().is_some_and(|s| Arc::ptr_eq(s, segment)) {
            return None;
        }
        self.recent.retain(|s| !Arc::ptr_eq(s, segment));
        self.recent.push_back(segment.clone());
        (self.recent.len() > OPEN_FOR_READING)
            .then(|| self.recent.pop_front())
            .flatten()
    }
}

/// Closes the handle of a segment that was read long ago.
pub(crate) fn close_old(segment: Option<Arc<Segment>>) {
    if let Some(s) = segment {
        s.close_reader();
    }
}

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
    let n = match file.read_at(0, &mut bytes, ReadSource::Cache) {
        Ok(n) => n,
        Err(e) => return Ok(Found::Broken(format!("its header cannot be read: {e}"))),
    };
    match SegmentHeader::decode(&bytes[..n]) {
        Ok(header) => {
            let len = file.len().map_err(Error::io("look at", &path))?;
            if len < header.len && !logforce_format::planted!("short-segment-accepted") {
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
    let (listing, claims) = take(dir, id)?;
    match claims.into_iter().next() {
        Some(claim) => Err(Error::Damaged(Box::new(claim))),
        None => Ok(listing),
    }
}

/// As [`list`], for salvage: of several that claim the same part of the log one counts, that with
/// the name of its place before others.
pub(crate) fn list_usable(dir: &Arc<dyn Directory>, id: LogId) -> Result<Listing> {
    let (mut listing, claims) = take(dir, id)?;
    for claim in claims {
        let name = claim.file.unwrap_or_default();
        listing.broken.push((name, claim.found));
    }
    Ok(listing)
}

/// Lists the directory and reads the headers; besides, what is wrong with each segment that claims
/// a part of the log that another one has. A file that a writer takes away meanwhile is left out.
fn take(dir: &Arc<dyn Directory>, id: LogId) -> Result<(Listing, Vec<Damage>)> {
    let mut listing = Listing {
        segments: Segments::default(),
        broken: Vec::new(),
        spares: Vec::new(),
        preparing: Vec::new(),
        overtaken: None,
    };
    let mut entries = dir.entries().map_err(Error::io("list", dir.path()))?;
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    let mut whole = Vec::new();
    for entry in entries.into_iter().filter(|e| e.is_file) {
        match names::kind(&entry.name) {
            names::NameKind::Spare => listing.spares.push((entry.name, entry.len)),
            names::NameKind::Preparing => listing.preparing.push(entry.name),
            names::NameKind::Segment => match read_header(dir, &entry.name) {
                Err(e) if e.is_absence() => listing.overtaken = Some(e),
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
        });
    }
    Ok((listing, claims))
}
