//! Inspection of a page file without opening it for writing. It locks, changes and forces nothing. Another
//! process may be writing the file.
//!
//! Beside a writer, the files may not match each other for a moment. A part that does not match is read
//! again. The header then decides if the part was being written; `table` and `data` describe how. Undecided
//! parts are reported as in use, never as damage.

pub(crate) mod base;
mod data;
pub(crate) mod info;
mod one;
mod redo;
mod table;
pub(crate) mod view;

use crate::error::{Error, Result};
use crate::files::{DATA, LOCK, LOG, MAP};
use crate::header::{Slot, in_force, read_slots};
use info::{Damage, FileSummary, FoundPage, HeaderSlot, NextOpening, VerifyReport, Visit};
use logforce_core::{Error as LogError, Inspector as LogInspector};
use logforce_device::{Directory, Facts, File, OpenFile, System};
use logforce_format::{Lsn, PAGE_HEADER_OFFSETS, PageFileHeader, PageFileKind};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of times that something is read again beside a writer.
const ROUNDS: usize = 5;

/// Page file that is open for inspection.
pub struct Inspector {
    system: Arc<dyn System>,
    dir: Arc<dyn Directory>,
    path: PathBuf,
    facts: Facts,
    data: Arc<dyn File>,
    slots: [Slot; 2],
    /// Index of the slot that counts.
    newest: usize,
    header: PageFileHeader,
    in_use: bool,
}

/// Receiver of findings, until the visitor stops the walk.
struct Out<'v> {
    visit: &'v mut dyn FnMut(Visit<'_>) -> bool,
    stopped: bool,
    damages: u64,
    /// First reason for which an opening fails.
    refused: Option<String>,
}

impl Out<'_> {
    fn visit(&mut self, what: Visit<'_>) {
        if !self.stopped && !(self.visit)(what) {
            self.stopped = true;
        }
    }

    fn damage(&mut self, damage: &Damage) {
        self.damages += 1;
        if damage.refused && self.refused.is_none() {
            self.refused = Some(damage.to_string());
        }
        self.visit(Visit::Damage(damage));
    }
}

impl Inspector {
    /// Opens the page file in the directory `path` for inspection.
    ///
    /// # Errors
    /// [`NoPageFile`](Error::NoPageFile), [`NotAPageFile`](Error::NotAPageFile),
    /// [`NewerFormat`](Error::NewerFormat), and [`Damaged`](Error::Damaged) if no header slot can be
    /// used.
    pub fn open(system: Arc<dyn System>, path: impl AsRef<Path>) -> Result<Inspector> {
        let path = path.as_ref().to_owned();
        let missing = |why: &str| Error::NoPageFile {
            path: path.clone(),
            why: why.to_owned(),
        };
        let dir = system.directory(&path).map_err(|e| match e.kind() {
            ErrorKind::NotFound => missing("there is no such directory"),
            _ => Error::io("open", &path)(e),
        })?;
        let data = dir.open(DATA, OpenFile::READ).map_err(|e| match e.kind() {
            ErrorKind::NotFound => missing(&format!("its file '{DATA}' is missing")),
            _ => Error::io("open", path.join(DATA))(e),
        })?;
        let facts = dir.facts().map_err(Error::io("look at", &path))?;
        let slots = read_slots(&facts, &*data, &path.join(DATA))?;
        let (newest, header) = in_force(slots, &path.join(DATA))?;
        let inspector = Inspector {
            system,
            dir,
            facts,
            data,
            slots,
            newest,
            header,
            in_use: false,
            path,
        };
        let in_use = inspector.is_locked()?;
        Ok(Inspector {
            in_use,
            ..inspector
        })
    }

    /// Returns the contents of the header and of the log's control file, and the lengths of files.
    pub fn summary(&self) -> Result<FileSummary> {
        let log = match self.header.kind {
            PageFileKind::CopyOnWrite(_) => None,
            PageFileKind::Logged(_) => match self.open_log() {
                Ok(log) => Some(Ok(log.summary())),
                Err(e @ LogError::Io { .. }) => return Err(e.into()),
                Err(e) => Some(Err(e.into())),
            },
        };
        let bytes = self.data.len();
        Ok(FileSummary {
            slots: self.header_slots(),
            header: self.header,
            in_use: self.in_use,
            bytes: bytes.map_err(Error::io("ask for the length of", self.path.join(DATA)))?,
            map_bytes: match (log.is_some(), self.open_map()?) {
                (true, Some(map)) => {
                    let len = map.len();
                    Some(len.map_err(Error::io("ask for the length of", self.path.join(MAP)))?)
                }
                _ => None,
            },
            log,
        })
    }

    /// Reads the whole file and checks every byte that counts: the header, the page table or the map, the
    /// pages, and the log of a logged file. `visit` returns `false` to stop.
    ///
    /// # Errors
    /// Errors of this process and of the system. Damage is passed to `visit`.
    pub fn walk(&self, visit: &mut dyn FnMut(Visit<'_>) -> bool) -> Result<VerifyReport> {
        let mut out = Out {
            visit,
            stopped: false,
            damages: 0,
            refused: None,
        };
        for slot in self.header_slots() {
            out.visit(Visit::Header(&slot));
        }
        let mut report = match self.header.kind {
            PageFileKind::CopyOnWrite(root) => table::walk(self, &root, &mut out)?,
            PageFileKind::Logged(_) => data::walk(self, &mut out)?,
        };
        report.damages = out.damages;
        if let Some(why) = out.refused {
            report.next_opening = NextOpening::Refused(why);
        }
        Ok(report)
    }

    /// Returns one page, and the source of its contents.
    ///
    /// # Errors
    /// [`OutOfRange`](Error::OutOfRange), and errors of this process. Damage is part of the result.
    pub fn page(&self, page: u64) -> Result<FoundPage> {
        match self.header.kind {
            PageFileKind::CopyOnWrite(_) => one::by_table(self, page),
            PageFileKind::Logged(_) => one::by_map(self, page),
        }
    }

    fn header_slots(&self) -> [HeaderSlot; 2] {
        [0, 1].map(|n| HeaderSlot {
            offset: PAGE_HEADER_OFFSETS[n],
            header: self.slots[n],
            in_force: n == self.newest,
        })
    }

    /// Reads the current header.
    fn header_now(&self) -> Result<PageFileHeader> {
        let path = self.path.join(DATA);
        let slots = read_slots(&self.facts, &*self.data, &path)?;
        Ok(in_force(slots, &path)?.1)
    }

    fn is_locked(&self) -> Result<bool> {
        // An opener locks both files, because the lock file may have been deleted.
        for name in [LOCK, DATA] {
            let locked = self.dir.is_locked(name);
            if locked.map_err(Error::io("ask for the lock on", self.path.join(name)))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn open_log(&self) -> logforce_core::Result<LogInspector> {
        LogInspector::open(&*self.system, self.path.join(LOG))
    }

    /// Returns true if segments of the log were removed that had records from `from` on.
    fn is_truncated_above(&self, from: Lsn) -> Result<bool> {
        match self.open_log() {
            Ok(log) => Ok(log
                .summary()
                .segments
                .first()
                .is_none_or(|s| s.start > from)),
            Err(e @ LogError::Io { .. }) => Err(e.into()),
            // It was being written.
            Err(_) => Ok(true),
        }
    }

    /// Opens the map. Returns `None` if it is missing.
    fn open_map(&self) -> Result<Option<Arc<dyn File>>> {
        match self.dir.open(MAP, OpenFile::READ) {
            Ok(map) => Ok(Some(map)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::io("open", self.path.join(MAP))(e)),
        }
    }

    /// Opens the map as [`open_map`](Self::open_map) does. A missing map is damage.
    fn existing_map(&self) -> Result<Arc<dyn File>> {
        self.open_map()?.ok_or_else(|| Error::Damaged {
            path: self.path.join(MAP),
            what: "page map".to_owned(),
            offset: 0,
            found: "the file is missing".to_owned(),
        })
    }

    /// Returns the error that a reader of the damaged part gets.
    fn error_of(&self, damage: &Damage) -> Error {
        Error::Damaged {
            path: self.path.join(&damage.file),
            what: damage.what.clone(),
            offset: damage.offset,
            found: damage.found.clone(),
        }
    }

    /// Returns the damage that an error describes. Returns other errors as errors.
    fn damage(&self, error: Error, page: Option<u64>, refused: bool) -> Result<Damage> {
        match error {
            Error::Damaged {
                path,
                what,
                offset,
                found,
            } => {
                let file = path.strip_prefix(&self.path).unwrap_or(&path);
                Ok(Damage {
                    what,
                    page,
                    file: file.display().to_string(),
                    offset,
                    found,
                    refused,
                })
            }
            other => Err(other),
        }
    }
}

impl std::fmt::Debug for Inspector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inspector")
            .field("path", &self.path)
            .field("id", &self.header.id)
            .finish_non_exhaustive()
    }
}
