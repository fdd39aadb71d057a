use crate::aside::Cuts;
use crate::handles::Handles;
use crate::listing::{Found, read_header};
use crate::reads::{Had, Lost};
use crate::{Error, Result, names};
use logforce_device::sync::{Mutex, MutexGuard};
use logforce_device::{Access, Directory, File, OpenFile};
use logforce_format::{LogId, Lsn, SegmentHeader};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

/// How far apart the index's points are, bytes of log.
const INDEX_STEP: u64 = 64 << 10;

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
    /// Where it is counted among the segments that are open.
    handles: Option<Arc<Handles>>,
    /// Some batches' positions, so that reading in the middle need not walk from the start.
    index: BTreeSet<Lsn>,
}

impl Segment {
    pub(crate) fn new(dir: Arc<dyn Directory>, name: String, header: SegmentHeader) -> Self {
        let state = SegmentState {
            name,
            file: None,
            writing: false,
            handles: None,
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
    pub(crate) fn file(self: &Arc<Self>) -> Result<Arc<dyn File>> {
        let (file, handles) = {
            let state = self.state();
            match (&state.file, state.writing) {
                (Some(file), true) => return Ok(file.clone()),
                (Some(file), false) => (Ok(file.clone()), state.handles.clone()),
                (None, _) => (Err(state.name.clone()), state.handles.clone()),
            }
        };
        let file = match file {
            Ok(file) => file,
            Err(name) => {
                let opened = self.dir.open(&name, OpenFile::READ);
                let file = opened.map_err(Error::io("open", self.dir.path().join(&name)))?;
                self.state().file.get_or_insert(file).clone()
            }
        };
        if let Some(handles) = handles {
            handles.opened(self);
        }
        Ok(file)
    }

    /// As [`Segment::file`], for what is evidence if it is not there.
    pub(crate) fn look(self: &Arc<Self>) -> Had<Arc<dyn File>> {
        match self.file() {
            Err(e) if e.is_not_found() => Ok(Err(Lost::file("the file is not there"))),
            other => other.map(Ok),
        }
    }

    /// Hands in the handle that the writer will use.
    pub(crate) fn set_writer(&self, file: Arc<dyn File>) {
        let mut state = self.state();
        state.file = Some(file);
        state.writing = true;
    }

    /// Opens the segment for writing, unless it is; answers the writer's handle.
    pub(crate) fn open_writer(&self, direct: bool) -> Result<Arc<dyn File>> {
        let name = {
            let state = self.state();
            if let (true, Some(file)) = (state.writing, &state.file) {
                return Ok(file.clone());
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
        self.set_writer(file.clone());
        Ok(file)
    }

    /// The writer is done with it. Its handle serves readers, for as long as there are not too many.
    pub(crate) fn writer_done(self: &Arc<Self>) {
        let handles = {
            let mut state = self.state();
            state.writing = false;
            state.handles.clone()
        };
        match handles {
            Some(handles) => handles.opened(self),
            None => self.close_reader(),
        }
    }

    pub(crate) fn close_reader(&self) {
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
    handles: Arc<Handles>,
    /// Ranges that openings gave up at damage, as their markers say.
    pub(crate) cuts: Cuts,
    /// Files that were listed, are named like segments and are none of these, and why. A later look
    /// may find a header whole that could not be read when it was decided by it.
    pub(crate) rejected: Vec<(String, String)>,
}

impl Segments {
    pub(crate) fn insert(&mut self, segment: Arc<Segment>) {
        segment.state().handles = Some(self.handles.clone());
        self.by_start.insert(segment.header.start, segment);
    }

    /// Takes in the segment of the log `id` that begins at `at`, if a file of that name is it and
    /// claims no part of what another one has. Says whether it is.
    pub(crate) fn learn(&mut self, dir: &Arc<dyn Directory>, id: LogId, at: Lsn) -> Result<bool> {
        let name = names::segment(at);
        let header = match read_header(dir, &name) {
            Ok(Found::Whole(h)) if h.log_id == id && h.start == at => h,
            Ok(_) | Err(Error::NewerFormat { .. }) => return Ok(false),
            Err(e) if e.is_not_found() => return Ok(false),
            Err(e) => return Err(e),
        };
        let is_free = self.overlapping(&header).is_none();
        if is_free {
            self.insert(Arc::new(Segment::new(dir.clone(), name, header)));
        }
        Ok(is_free)
    }

    /// The segment that holds `lsn`.
    pub(crate) fn containing(&self, lsn: Lsn) -> Option<Arc<Segment>> {
        let (_, s) = self.by_start.range(..=lsn).next_back()?;
        s.header.contains(lsn).then(|| s.clone())
    }

    /// One that holds a part of what a segment with this header would.
    pub(crate) fn overlapping(&self, header: &SegmentHeader) -> Option<Arc<Segment>> {
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
        gone
    }

    /// Takes out those that begin at or above `lsn`.
    pub(crate) fn take_from(&mut self, lsn: Lsn) -> Vec<Arc<Segment>> {
        self.by_start.split_off(&lsn).into_values().collect()
    }
}
