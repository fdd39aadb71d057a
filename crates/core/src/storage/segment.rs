//! File of a segment, and a limit on the number of open files.

use crate::environment::fd_budget::OpenFiles;
use crate::error::{Error, Result};
use crate::storage::directory::directory_displaced;
use crate::storage::transfer::{Lost, ReadResult};
use logforce_device::sync::{AtomicBool, Mutex, MutexGuard};
use logforce_device::{Access, Directory, File, OpenFile};
use logforce_format::{Lsn, SegmentHeader};
use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, OnceLock, PoisonError, Weak};

/// Distance between the entries of a segment's index, bytes.
const INDEX_STEP: u64 = 64 << 10;

/// A file that contains a part of the log.
pub(crate) struct Segment {
    pub(crate) header: SegmentHeader,
    /// True if unused blocks may never have been written.
    unwritten: AtomicBool,
    dir: Arc<dyn Directory>,
    state: Mutex<SegmentState>,
}

struct SegmentState {
    name: String,
    file: Option<Arc<dyn File>>,
    /// True if the file is open for writing. It stays open until the segment is full and forced.
    writing: bool,
    /// Set of open segments to which the segment belongs.
    handles: Option<Arc<Handles>>,
    /// Positions of some batches, so that a read within the segment need not scan from the start.
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
            unwritten: header.unwritten.into(),
            dir,
            state: Mutex::new(state),
        }
    }

    /// Returns true if unused blocks may never have been written. This is the header's value until an opening
    /// has checked the blocks.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.unwritten.load(Acquire)
    }

    pub(crate) fn set_unwritten(&self, unwritten: bool) {
        self.unwritten.store(unwritten, Release);
    }

    fn state(&self) -> MutexGuard<'_, SegmentState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the segment to a set of open segments.
    pub(crate) fn count_among(&self, handles: &Arc<Handles>) {
        self.state().handles = Some(handles.clone());
    }

    pub(crate) fn name(&self) -> String {
        self.state().name.clone()
    }

    /// Notes that the file was renamed. Readers open it again, because Windows flushes a file that was opened
    /// for reading by the name with which it was opened.
    pub(crate) fn set_name(&self, name: String) {
        self.state().name = name;
        self.close_reader();
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join(self.name())
    }

    /// Returns the offset of `lsn` in the file.
    pub(crate) fn offset(&self, lsn: Lsn) -> u64 {
        lsn.since(self.header.start)
    }

    /// Returns true if a batch can begin at `lsn`. The segment's start counts as the position of its first
    /// batch.
    pub(crate) fn begins_batch(&self, lsn: Lsn) -> bool {
        let unit = u64::from(self.header.write_unit);
        lsn == self.header.start
            || lsn >= self.header.first_batch() && self.offset(lsn).is_multiple_of(unit)
    }

    /// Returns the file, open at least for reading.
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

    /// Returns the file as [`Segment::file`] does, but a missing file is evidence of damage, not an error.
    pub(crate) fn file_or_lost(self: &Arc<Self>) -> ReadResult<Arc<dyn File>> {
        match self.file() {
            Err(e) if e.is_not_found() => match directory_displaced(&*self.dir) {
                // If the directory was moved away, no data is lost.
                Some(found) => Err(Error::Displaced {
                    path: self.dir.path().to_owned(),
                    found: found.to_owned(),
                }),
                None => Ok(Err(Lost::file("the file does not exist"))),
            },
            other => other.map(Ok),
        }
    }

    /// Sets the file that the writer will use.
    pub(crate) fn set_writer(&self, file: Arc<dyn File>) {
        let handles = {
            let mut state = self.state();
            state.file = Some(file);
            state.writing = true;
            state.handles.clone()
        };
        if let Some(handles) = handles {
            handles.note_open();
        }
    }

    /// Returns the file for writing; opens it if necessary.
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

    /// Ends writing. Readers keep using the file until too many segments are open.
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

    /// Takes the open file. Readers and the writer open it again.
    pub(crate) fn take_handle(&self) -> Option<Arc<dyn File>> {
        let mut state = self.state();
        state.writing = false;
        state.file.take()
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

    /// Adds a batch to the index.
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

    /// Returns the position of a batch at or below `lsn`, from which to scan.
    pub(crate) fn index_below(&self, lsn: Lsn) -> Lsn {
        self.state()
            .index
            .range(..=lsn)
            .next_back()
            .copied()
            .unwrap_or(self.header.first_batch())
    }
}

/// Maximum number of segments that stay open without being written. Each takes one descriptor, or two if it
/// was also read or written past the cache. The host program needs descriptors, too.
const MAX_OPEN: usize = 6;

/// Segments that are open for reading, least recently used first.
#[derive(Default)]
pub(crate) struct Handles {
    recent: Mutex<VecDeque<Weak<Segment>>>,
    /// Record of an environment that the log's files are open.
    watched: OnceLock<Arc<OpenFiles>>,
}

impl Handles {
    /// Reports to an environment when files are opened.
    pub(crate) fn report_to(&self, files: Arc<OpenFiles>) {
        let _ = self.watched.set(files);
        self.note_open();
    }

    fn note_open(&self) {
        if let Some(files) = self.watched.get() {
            files.note_open();
        }
    }

    /// Registers that `segment` is open, and closes another one if too many are.
    pub(crate) fn opened(&self, segment: &Arc<Segment>) {
        self.note_open();
        let this = Arc::downgrade(segment);
        let oldest = {
            let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
            if recent.back().is_some_and(|s| s.ptr_eq(&this)) {
                return;
            }
            recent.retain(|s| !s.ptr_eq(&this) && s.strong_count() > 0);
            recent.push_back(this);
            (recent.len() > MAX_OPEN)
                .then(|| recent.pop_front())
                .flatten()
        };
        if let Some(segment) = oldest.and_then(|s| s.upgrade()) {
            segment.close_reader();
        }
    }
}
