//! Reading of a page file for a base copy, beside a program that writes it.
//!
//! The copy has the header of its beginning, and each page as it was at some later moment; a page may even be
//! torn. The log mends that, as after a crash. A page that was written since that header has a version in the
//! log behind it, and the first one there is whole. So the copy is complete with the log from the header's
//! redo position up to the end that the log had when the copy ended, or further.

use super::data::{Data, Settled};
use super::info::{Held, PageInfo};
use super::{Inspector, ROUNDS, redo};
use crate::error::{Error, Result};
use crate::file_read;
use crate::files::DATA;
use crate::logged::open::META;
use crate::logged::read::{page_offset, sectors_with_data};
use crate::options::CommitMode;
use logforce_device::sync::AtomicU32;
use logforce_device::{File, System};
use logforce_format::{
    LogId, Lsn, MAP_SECTOR_ENTRIES, MapEntry, PageFileHeader, PageFileId, PageFileKind, page_crc,
};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const ENTRIES: u64 = MAP_SECTOR_ENTRIES as u64;
/// Maximum number of times that pages are read again which did not match while checkpoints ended.
const SETTLE_ROUNDS: usize = 100;
/// Pause before the next one: checkpoints follow each other closely.
const PAUSE: Duration = Duration::from_millis(50);

/// Reader of a logged page file for a base copy. It locks and changes nothing; a program may write the file
/// meanwhile, in this process or in another.
///
/// A base copy keeps the ids of the page file and of its log. It is complete with the log from
/// [`BaseReader::first_segment`] to the position that [`BaseReader::finish`] returns, or further.
pub struct BaseReader {
    inspector: Inspector,
    map: Arc<dyn File>,
    log_id: LogId,
    redo_from: Lsn,
    first_segment: Lsn,
    sectors: std::vec::IntoIter<u64>,
    /// Sectors of the map with pages that did not match.
    unsettled: BTreeSet<u64>,
}

impl BaseReader {
    /// Opens the page file in the directory `path` of `system`.
    ///
    /// # Errors
    /// [`OtherOption`](Error::OtherOption) for a copy-on-write file, which has no log;
    /// [`NoPageFile`](Error::NoPageFile); [`ForeignLog`](Error::ForeignLog) if the log is not that of the
    /// page file.
    #[doc(hidden)]
    pub fn open(system: Arc<dyn System>, path: impl AsRef<Path>) -> Result<BaseReader> {
        let path = path.as_ref();
        let mut attempts = 0;
        let (inspector, log, state) = loop {
            attempts += 1;
            let inspector = Inspector::open(system.clone(), path)?;
            let header = inspector.header;
            let PageFileKind::Logged(state) = header.kind else {
                return Err(not_logged(path));
            };
            match redo::open(&inspector, &header, &state)? {
                Ok(log) => break (inspector, log, state),
                // The log was truncated after the header was read. A new header preceded the truncation.
                Err(_)
                    if attempts < ROUNDS && inspector.header_now()?.sequence != header.sequence => {
                }
                Err(why) => {
                    let path = path.to_owned();
                    return Err(Error::ForeignLog { path, why });
                }
            }
        };
        let starts = log.summary().segments.into_iter().map(|s| s.start);
        let first_segment = starts.filter(|start| *start <= state.redo_from).max();
        let Some(first_segment) = first_segment else {
            return Err(Error::ForeignLog {
                path: path.to_owned(),
                why: format!("its log has no segment with LSN {}", state.redo_from),
            });
        };
        let map = inspector.existing_map()?;
        let data = Data::of(&inspector, map.clone());
        let end = inspector.header.page_count.div_ceil(ENTRIES);
        let mut sectors = data.map.used_sectors(0..end)?;
        // The map may have lost some sectors. Their pages are found to be damaged.
        let with_data = sectors_with_data(&*inspector.data, inspector.header.page_size as usize);
        let with_data = with_data.map_err(Error::io("look for data in", path.join(DATA)))?;
        sectors.extend(with_data.into_iter().filter(|sector| *sector < end));
        let sectors: Vec<u64> = sectors.into_iter().collect();
        Ok(BaseReader {
            map,
            log_id: state.log_id,
            redo_from: state.redo_from,
            first_segment,
            sectors: sectors.into_iter(),
            unsettled: BTreeSet::new(),
            inspector,
        })
    }

    /// Returns the id of the log.
    pub fn log_id(&self) -> LogId {
        self.log_id
    }

    /// Returns the header of the copy, as [`BaseWriter`](crate::BaseWriter) expects it.
    pub fn header(&self) -> PageFileHeader {
        self.inspector.header
    }

    /// Returns the LSN from which on the copy needs the log: the front of a log that is restored with it.
    pub fn redo_from(&self) -> Lsn {
        self.redo_from
    }

    /// Returns the start of the log's segment that contains [`BaseReader::redo_from`], or ends there.
    pub fn first_segment(&self) -> Lsn {
        self.first_segment
    }

    /// Returns the number of bytes that are still to be read, at most.
    pub fn left(&self) -> u64 {
        let sector = ENTRIES * u64::from(self.inspector.header.page_size);
        self.sectors.len() as u64 * sector
    }

    /// Returns the next part of the copy, of `size` bytes or up to 4 MiB more; `None` at the end.
    ///
    /// # Errors
    /// [`Damaged`](Error::Damaged) if a sector of the map is.
    pub fn part(&mut self, size: usize) -> Result<Option<Vec<u8>>> {
        let mut part = Vec::new();
        while part.len() < size
            && let Some(sector) = self.sectors.next()
        {
            if !self.sector(sector, &mut part)? {
                self.unsettled.insert(sector);
            }
        }
        Ok((!part.is_empty()).then_some(part))
    }

    /// Adds a sector and its pages. Returns false if they do not match.
    fn sector(&self, number: u64, part: &mut Vec<u8>) -> Result<bool> {
        let data = Data::of(&self.inspector, self.map.clone());
        let header = &self.inspector.header;
        let size = header.page_size as usize;
        let mut sector = data.map.read(number)?;
        let mut is_whole = true;
        let mut present = Vec::new();
        for (page, entry) in (number * ENTRIES..).zip(&mut sector.entries) {
            match *entry {
                // Behind the end of the header no entry counts: the log has these pages.
                _ if page >= header.page_count => *entry = MapEntry::Absent,
                MapEntry::Present { crc } => present.push(PageInfo {
                    page,
                    place: None,
                    offset: page_offset(size, page),
                    crc: header.checksums.then_some(crc),
                    held: Held::Whole,
                }),
                other => {
                    // It is zeroes, or dropped by the log, or the map has lost it.
                    is_whole &= data.lost(page, other)?.is_none();
                    *entry = MapEntry::Absent;
                }
            }
        }
        if present.is_empty() {
            return Ok(is_whole);
        }
        part.extend_from_slice(&number.to_le_bytes());
        part.extend_from_slice(&sector.encode(number));
        for run in present.chunk_by(|a, b| b.page == a.page + 1) {
            let at = part.len();
            part.resize(at + run.len() * size, 0);
            let Some(first) = run.first() else { continue };
            let file = &*self.inspector.data;
            let read = file_read::read_all(file, first.offset, &mut part[at..]);
            let path = || self.inspector.path.join(DATA);
            let read = read.map_err(Error::io("read", path()))?;
            for (page, bytes) in run.iter().zip(part[at..].chunks_mut(size)) {
                let fits = page.crc.is_none_or(|crc| crc == page_crc(page.page, bytes));
                if read.is_err() || !fits {
                    is_whole &= data.read(page, bytes)?.is_none();
                }
            }
        }
        Ok(is_whole)
    }

    /// Ends the copy. Returns the LSN that it stands for: with the log up to there it is complete, and not
    /// with less. The log may have these bytes before they are durable.
    ///
    /// # Errors
    /// [`Damaged`](Error::Damaged) with the first page that is damaged and not in the log.
    pub fn finish(mut self) -> Result<Lsn> {
        let inspector = &self.inspector;
        let data = Data::of(inspector, self.map.clone());
        let mut rounds = 0;
        while !self.unsettled.is_empty() {
            rounds += 1;
            match data.settle_once(&self.unsettled)? {
                Settled::Damages(damages) => match damages.first() {
                    Some(damage) => return Err(inspector.error_of(damage)),
                    None => self.unsettled.clear(),
                },
                Settled::Not(left) if rounds < SETTLE_ROUNDS => {
                    self.unsettled = left;
                    self.pause();
                }
                Settled::Not(_) => return Err(self.busy()),
            }
        }
        let mut rounds = 0;
        loop {
            rounds += 1;
            // The end of the last record. A stamp behind it may not be archived before the next record.
            let mut end = self.redo_from;
            match redo::read_undamaged(inspector, &mut |record| end = end.max(record.end))? {
                Ok(in_log) if in_log.is_whole => return Ok(end.max(in_log.summary().from)),
                Err(damage) => return Err(inspector.error_of(&damage)),
                _ if rounds == SETTLE_ROUNDS => return Err(self.busy()),
                _ => self.pause(),
            }
        }
    }
}

impl BaseReader {
    fn pause(&self) {
        let runtime = self.inspector.system.runtime();
        runtime.wait(&AtomicU32::new(0), 0, Some(PAUSE));
    }

    fn busy(&self) -> Error {
        Error::Io {
            doing: "copy",
            path: self.inspector.path.clone(),
            source: Arc::new(io::Error::new(
                io::ErrorKind::ResourceBusy,
                "checkpoints follow each other too closely to compare the copy with the log: try again when less \
                 is written, or set a longer checkpoint distance",
            )),
        }
    }
}

/// Returns true if a log with this metadata is that of a page file.
pub fn is_log_of_page_file(meta: &[u8]) -> bool {
    meta.len() == META.len() + size_of::<PageFileId>() && meta.starts_with(META)
}

/// Returns the error for a copy-on-write file, which has no log.
pub(crate) fn not_logged(path: &Path) -> Error {
    Error::OtherOption {
        path: path.to_owned(),
        option: "mode",
        is: format!("{:?}", CommitMode::CopyOnWrite),
        wanted: format!("{:?}", CommitMode::Logged),
    }
}

impl std::fmt::Debug for BaseReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BaseReader")
            .field("path", &self.inspector.path)
            .field("redo_from", &self.redo_from)
            .finish_non_exhaustive()
    }
}
