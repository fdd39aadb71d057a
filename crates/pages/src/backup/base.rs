//! Restoring of a base copy: makes a page file of its parts and of the log that goes with it.

use super::stream::Stream;
use super::{begin, create_data, remove};
use crate::error::{Error, Result};
use crate::files::{BACKUP_NEW, DataDir, LOG, MAP};
use crate::header::HeaderSlots;
use crate::inspect::base::not_logged;
use crate::logged::open::meta_of;
use crate::logged::read::page_offset;
use logforce_core::{Error as LogError, Guarantee, Inspector as LogInspector, Verdict};
use logforce_device::{Barrier, File, OpenFile, System};
use logforce_format::{
    LoggedState, MAP_SECTOR_ENTRIES, MAP_SECTOR_LEN, MapEntry, MapSector, PageFileHeader,
    PageFileKind,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const ENTRIES: u64 = MAP_SECTOR_ENTRIES as u64;
/// Length of the number before a sector, in bytes.
const NUMBER_LEN: usize = 8;

/// A page file that is being made of a base copy ([`BaseReader`](crate::BaseReader)). Until
/// [`BaseWriter::finish`] returns, the directory cannot be opened; dropping the writer removes its files.
pub struct BaseWriter {
    system: Arc<dyn System>,
    /// `None` once it is finished or removed.
    data_dir: Option<DataDir>,
    header: PageFileHeader,
    state: LoggedState,
    file: Arc<dyn File>,
    map: Arc<dyn File>,
    data_out: Stream,
    map_out: Stream,
    /// Lowest sector that the next part may have.
    next: u64,
}

impl BaseWriter {
    /// Begins a page file in the directory `path` of `system`, which must be missing or empty, or contain a
    /// restore that was cut short. `header` is that of the copy.
    ///
    /// # Errors
    /// [`DestinationExists`](Error::DestinationExists), [`Guarantee`](Error::Guarantee),
    /// [`OtherOption`](Error::OtherOption) if the header is not that of a logged file.
    #[doc(hidden)]
    pub fn new(
        system: Arc<dyn System>,
        path: impl AsRef<Path>,
        header: PageFileHeader,
        require: Guarantee,
    ) -> Result<BaseWriter> {
        let path = path.as_ref();
        let PageFileKind::Logged(state) = header.kind else {
            return Err(not_logged(path));
        };
        let data_dir = begin(&*system, path, true)?;
        let begun = data_dir
            .guarantee(require, Verdict::Contradicted)
            .and_then(|_| {
                let file = create_data(&data_dir)?;
                let map = data_dir.dir.open(MAP, OpenFile::CREATE);
                Ok((
                    file,
                    map.map_err(Error::io("create", data_dir.path_of(MAP)))?,
                ))
            });
        let (file, map) = match begun {
            Ok(begun) => begun,
            Err(e) => {
                remove(&*system, data_dir);
                return Err(e);
            }
        };
        let out = |file: &Arc<dyn File>, name| {
            Stream::new(file.clone(), data_dir.path_of(name), data_dir.alignment())
        };
        Ok(BaseWriter {
            data_out: out(&file, BACKUP_NEW),
            map_out: out(&map, MAP),
            system,
            data_dir: Some(data_dir),
            header,
            state,
            file,
            map,
            next: 0,
        })
    }

    fn data_dir(&self) -> Result<&DataDir> {
        self.data_dir.as_ref().ok_or(Error::Closed)
    }

    /// Returns the directory in which the log is to be restored before [`BaseWriter::finish`].
    pub fn log_path(&self) -> Result<PathBuf> {
        Ok(self.data_dir()?.path_of(LOG))
    }

    /// Writes a part. Parts come in the order in which they were read.
    ///
    /// # Errors
    /// [`Damaged`](Error::Damaged) if the bytes are not the next part of such a copy; [`Io`](Error::Io).
    pub fn part(&mut self, mut bytes: &[u8]) -> Result<()> {
        let whole = bytes.len();
        while !bytes.is_empty() {
            let at = (whole - bytes.len()) as u64;
            bytes = self.sector(bytes).map_err(|wrong| match wrong {
                Wrong::Part(found) => Error::Damaged {
                    path: self
                        .data_dir
                        .as_ref()
                        .map_or_else(PathBuf::new, |dir| dir.path.clone()),
                    what: "part of a base copy".to_owned(),
                    offset: at,
                    found,
                },
                Wrong::Write(e) => e,
            })?;
        }
        Ok(())
    }

    /// Writes the sector at the beginning of `bytes` and its pages. Returns what follows.
    fn sector<'b>(&mut self, bytes: &'b [u8]) -> std::result::Result<&'b [u8], Wrong> {
        let short = || Wrong::Part("it ends within a sector or a page".to_owned());
        let (number, bytes) = bytes.split_first_chunk::<NUMBER_LEN>().ok_or_else(short)?;
        let (encoded, mut bytes) = bytes
            .split_first_chunk::<MAP_SECTOR_LEN>()
            .ok_or_else(short)?;
        let number = u64::from_le_bytes(*number);
        let sector = MapSector::decode(encoded, number);
        let sector = sector.map_err(|reject| Wrong::Part(reject.to_string()))?;
        if number < self.next || number > self.header.page_count / ENTRIES {
            let (next, count) = (self.next, self.header.page_count);
            let found = format!(
                "sector {number} of the map, where sector {next} or a later one of {count} pages belongs"
            );
            return Err(Wrong::Part(found));
        }
        self.next = number + 1;
        let size = self.header.page_size as usize;
        for (page, entry) in (number * ENTRIES..).zip(sector.entries) {
            match entry {
                MapEntry::Absent => {}
                MapEntry::Present { .. } if page < self.header.page_count => {
                    let (image, rest) = bytes.split_at_checked(size).ok_or_else(short)?;
                    self.data_out.write(page_offset(size, page), image)?;
                    bytes = rest;
                }
                _ => {
                    let found = format!("page {page} is not one of the copy");
                    return Err(Wrong::Part(found));
                }
            }
        }
        self.map_out
            .write(number * MAP_SECTOR_LEN as u64, encoded)?;
        Ok(bytes)
    }

    /// Makes the directory a page file, durably. Its log must be complete, with a front at or below
    /// [`BaseReader::redo_from`](crate::BaseReader::redo_from).
    ///
    /// # Errors
    /// [`ForeignLog`](Error::ForeignLog) if the log does not belong to the copy.
    pub fn finish(mut self) -> Result<()> {
        self.data_out.flush()?;
        self.map_out.flush()?;
        let data_dir = self.data_dir()?;
        self.check_log(data_dir)?;
        let synced = self.map.barrier(Barrier::Full);
        synced.map_err(Error::io("sync", data_dir.path_of(MAP)))?;
        // Makes the other names durable before the rename that makes the page file valid.
        data_dir.sync_names()?;
        HeaderSlots::complete(data_dir, &*self.file, BACKUP_NEW, &self.header)?;
        if let Some(data_dir) = self.data_dir.take() {
            data_dir.release();
        }
        Ok(())
    }

    fn check_log(&self, data_dir: &DataDir) -> Result<()> {
        let log = LogInspector::open(&*self.system, data_dir.path_of(LOG));
        let log = log.map_err(|e| match e {
            LogError::NoLog { why, .. } => Error::ForeignLog {
                path: data_dir.path.clone(),
                why: format!("its log, in the directory '{LOG}', is missing: {why}"),
            },
            e => e.into(),
        })?;
        let summary = log.summary();
        let LoggedState { log_id, redo_from } = self.state;
        let is_own = log
            .meta()?
            .is_some_and(|meta| meta == meta_of(self.header.id));
        if summary.log_id != log_id || !is_own || summary.front > redo_from {
            return Err(Error::ForeignLog {
                path: data_dir.path.clone(),
                why: format!(
                    "the base copy needs the log {log_id} from LSN {redo_from} on, and the log there is {}, \
                     from LSN {} on",
                    summary.log_id, summary.front
                ),
            });
        }
        Ok(())
    }
}

/// Reason why a sector was not written.
enum Wrong {
    Part(String),
    Write(Error),
}

impl From<Error> for Wrong {
    fn from(e: Error) -> Self {
        Wrong::Write(e)
    }
}

impl Drop for BaseWriter {
    fn drop(&mut self) {
        if let Some(data_dir) = self.data_dir.take() {
            remove(&*self.system, data_dir);
        }
    }
}

impl std::fmt::Debug for BaseWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BaseWriter")
            .field("id", &self.header.id)
            .finish_non_exhaustive()
    }
}
