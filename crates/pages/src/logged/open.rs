//! Creating and opening a logged page file. An opening reads what the log holds beyond the data file, and
//! brings it into the data file in the background.

use super::grow::Room;
use super::hot_versions::HotVersions;
use super::map::PageMap;
use super::proof::DataFile;
use super::read::put_ranges;
use super::readers::CommitPoint;
use super::room::fill_header;
use super::state::State;
use super::stats::Counts;
use super::version_chain::{Bytes, PageVersion};
use super::versions_file::VersionsFile;
use super::{Checkpointer, LoggedFile, LoggedStore, PageContents};
use crate::changes::{Change, Changes, Image};
use crate::error::{Error, Result};
use crate::files::{DATA, DataDir, LOG, MAP};
use crate::header::HeaderSlots;
use crate::options::{DEFAULT_PAGE_SIZE, Options};
use crate::uses::Uses;
use logforce_core::{Error as LogError, ErrorKind as LogErrorKind, Granted, Log, OpenMode, Record};
use logforce_device::Event;
use logforce_device::sync::Mutex;
use logforce_device::write_out::Writers;
use logforce_device::{FileState, FilesystemKind, System};
use logforce_format::{
    LoggedState, Lsn, PAGE_HEADER_LEN, PageChange, PageFileHeader, PageFileId, PageFileKind, Redo,
    planted,
};
use std::sync::Arc;

/// Prefix of the log's metadata, which names the page file that the log belongs to.
pub(crate) const META: &[u8] = b"page file ";

/// Returns the metadata of the log of this page file.
pub(crate) fn meta_of(id: PageFileId) -> Vec<u8> {
    [META, &id.0].concat()
}

impl LoggedStore {
    pub(crate) fn create(
        system: &dyn System,
        data_dir: DataDir,
        options: Options,
        guarantee: Granted,
    ) -> Result<LoggedFile> {
        // A crash below leaves a log without metadata and no data file. This is an unfinished creation, which
        // the next creation continues.
        let log = open_log(system, &data_dir, &options, OpenMode::OpenOrCreate)?;
        if log.meta().is_some() {
            return Err(Error::NoPageFile {
                path: data_dir.path.clone(),
                why: format!(
                    "its file '{DATA}' is missing beside its log: restore both from the same backup"
                ),
            });
        }
        let random = || data_dir.runtime.random().to_le_bytes();
        let mut id = [0; 16];
        id[..8].copy_from_slice(&random());
        id[8..].copy_from_slice(&random());
        let header = PageFileHeader {
            id: PageFileId(id),
            sequence: 1,
            page_size: options.page_size.unwrap_or(DEFAULT_PAGE_SIZE),
            checksums: options.checksums.unwrap_or(true),
            page_count: 0,
            commit: 0,
            kind: PageFileKind::Logged(LoggedState {
                log_id: log.id(),
                redo_from: log.tail_lsn(),
            }),
        };
        PageMap::create(&data_dir)?;
        HeaderSlots::create(&data_dir, &header)?;
        data_dir.lock_data()?;
        log.set_meta(&meta_of(header.id))?;
        LoggedStore::start(data_dir, options, guarantee, log)
    }

    pub(crate) fn open(
        system: &dyn System,
        data_dir: DataDir,
        options: Options,
        guarantee: Granted,
    ) -> Result<LoggedFile> {
        let log = open_log(system, &data_dir, &options, OpenMode::OpenExisting);
        let log = log.map_err(|e| match e {
            Error::Log(e) if e.kind() == LogErrorKind::NoLog => Error::ForeignLog {
                path: data_dir.path.clone(),
                why: format!("its log, in the directory '{LOG}', is missing ({e})"),
            },
            e => e,
        })?;
        LoggedStore::start(data_dir, options, guarantee, log)
    }

    fn start(
        mut data_dir: DataDir,
        options: Options,
        guarantee: Granted,
        log: Log,
    ) -> Result<LoggedFile> {
        let header_file = data_dir.open_file(DATA, false)?;
        let slots = HeaderSlots::load(&data_dir, header_file.clone())?;
        let header = slots.header;
        let redo_from = check_log(&data_dir, &header, &log)?;
        let io = |e| Error::io("start a thread for", &data_dir.path)(e);
        let page_size = header.page_size;
        let wants_direct = options.applies_direct(&data_dir);
        let (file, is_direct) = data_dir.open_for_pages(page_size, wants_direct)?;
        let data = DataFile {
            file,
            is_direct,
            is_write_through_enough: data_dir
                .is_write_through_enough(guarantee, FileState::Recycled),
            map: PageMap::open(&data_dir, &header)?,
            page_size,
            zeroes: vec![0; page_size as usize].into(),
        };
        data_dir.named.add(DATA);
        data_dir.named.add(MAP);
        if !planted!("page-files-unwatched") {
            log.watch_beside(data_dir.named.clone());
        }
        let versions_file = VersionsFile::new(&data_dir, page_size)?;
        // Only the checkpointer writes through the system's cache, so no threads are needed for that.
        let threads = if is_direct { options.writers } else { 0 };
        let writers = Writers::start(&data_dir.runtime, &data.file, threads, data_dir.alignment())
            .map_err(io)?;
        let at = CommitPoint {
            end: redo_from,
            commit: header.commit,
            page_count: header.page_count,
        };
        let mut state = State::new(at, options.clean_cache());
        let limit = options.changed_cache() / page_size as usize;
        Recovery {
            log: &log,
            page_size,
            limit,
            state: &mut state,
        }
        .run(redo_from)?;
        let recovered = state.chains.keys().max().map_or(0, |page| page + 1);
        let is_in_place = data_dir.facts.kind != FilesystemKind::Relocating;
        if is_in_place {
            let filled = fill_header(&*header_file);
            let need = 2 * PAGE_HEADER_LEN as u64;
            let path = || data_dir.path_of(DATA);
            filled.map_err(|e| Error::no_space("fill the header of", path(), need, e))?;
        }
        let room = Room::find(&data, is_in_place, recovered);
        state.room = room.map_err(Error::io("look at", data_dir.path_of(DATA)))?;
        let store = Arc::new(LoggedStore {
            header,
            checkpointer: Checkpointer {
                thread: Mutex::default(),
                work: Event::default(),
                recovered: state.points.latest.end,
            },
            contents: PageContents {
                data,
                newest: HotVersions::new(options.newest_cache(), page_size as usize),
                versions_file,
            },
            writers,
            readers: state.readers.clone(),
            state: Mutex::new(state),
            progress: Event::default(),
            uses: Uses::new(data_dir.runtime.clone()),
            counts: Counts::default(),
            data_dir,
            options,
            guarantee,
            log,
        });
        let own = store.clone();
        let body = Box::new(move || own.run_checkpointer(slots));
        let thread = store.data_dir.runtime.spawn("logforce-checkpoint", body);
        let thread = thread.map_err(Error::io("start a thread for", &store.data_dir.path))?;
        *store.checkpointer.thread() = Some(thread);
        Ok(LoggedFile::new(store))
    }
}

fn open_log(
    system: &dyn System,
    data_dir: &DataDir,
    options: &Options,
    mode: OpenMode,
) -> Result<Log> {
    let log_options = options
        .log
        .clone()
        .require(options.require)
        .require_verdict(options.require_verdict);
    Ok(Log::open(system, data_dir.path_of(LOG), mode, log_options)?)
}

/// Checks that the log belongs to the data file and holds everything that it needs. Returns the start of
/// redo.
fn check_log(data_dir: &DataDir, header: &PageFileHeader, log: &Log) -> Result<Lsn> {
    let foreign = |why: String| Error::ForeignLog {
        path: data_dir.path.clone(),
        why,
    };
    let PageFileKind::Logged(LoggedState { log_id, redo_from }) = header.kind else {
        return Err(foreign("the data file commits by copy-on-write".to_owned()));
    };
    if log_id != log.id() {
        return Err(foreign(format!(
            "the data file names the log {log_id}, but the log there is {}",
            log.id()
        )));
    }
    match log.meta() {
        Some(meta) if meta == meta_of(header.id) => {}
        // A crash interrupted the creation before it had written the metadata.
        None => log.set_meta(&meta_of(header.id))?,
        Some(_) => {
            return Err(foreign(format!(
                "the log belongs to another page file, not to {}",
                header.id
            )));
        }
    }
    if log.front_lsn() > redo_from {
        return Err(foreign(format!(
            "the data file needs the log from LSN {redo_from} on, but it begins at {}: the data file is \
             older than the log",
            log.front_lsn()
        )));
    }
    if log.tail_lsn() < redo_from {
        return Err(foreign(format!(
            "the data file needs the log up to LSN {redo_from}, but it ends at {}: the log is older than \
             the data file",
            log.tail_lsn()
        )));
    }
    Ok(redo_from)
}

/// Recovery of the commits that the data file may not hold.
struct Recovery<'a> {
    log: &'a Log,
    page_size: u32,
    /// Maximum number of images in memory.
    limit: usize,
    state: &'a mut State,
}

impl Recovery<'_> {
    fn run(&mut self, from: Lsn) -> Result<()> {
        for record in records(self.log, from)? {
            let record = record?;
            let redo = Redo::decode(&record.data, self.page_size)
                .map_err(|e| self.damaged(record.start, e.to_string()))?;
            self.publish(&redo, record.start, record.end)?;
            self.state.forced(record.end);
            self.state.evict(self.limit);
        }
        // The first change of each page after this is logged as an image again.
        let generations = &mut self.state.generations;
        if generations.open.bytes > 0 {
            generations.end(self.state.points.latest);
        }
        if planted!("torn-page-not-repaired") {
            generations.to_apply.clear();
        }
        Ok(())
    }

    fn damaged(&self, at: Lsn, found: String) -> Error {
        Error::Damaged {
            path: self.log.path().to_owned(),
            what: format!("redo record at LSN {at}"),
            offset: at.0,
            found,
        }
    }

    /// Publishes the commit, as when it was committed.
    fn publish(&mut self, redo: &Redo<'_>, start: Lsn, end: Lsn) -> Result<()> {
        let mut changes = Changes {
            resize: redo.resize,
            ..Changes::default()
        };
        let mut below = Vec::with_capacity(redo.pages.len());
        for (page, change) in &redo.pages {
            let change = match change {
                PageChange::Image(image) => Change::Write {
                    image: Image::from(*image),
                    before: None,
                },
                PageChange::Ranges(ranges) => {
                    if *page >= redo.resize.drop_from {
                        return Err(self.without_image(*page, start));
                    }
                    let mut bytes = self.current(*page, start)?.to_vec();
                    put_ranges(&mut bytes, ranges);
                    Change::Write {
                        image: bytes.into(),
                        before: None,
                    }
                }
                PageChange::Discard => Change::Discard,
            };
            below.push(match redo_kind(redo, *page) {
                Some(PageChange::Ranges(_)) => self.state.last_redo(*page),
                _ => Vec::new(),
            });
            changes.pages.insert(*page, change);
        }
        self.state.reserve(&changes);
        self.state.publish(&changes, &below, (start, end));
        Ok(())
    }

    /// Returns the page as the earlier commits left it. One of them must hold its image, because the contents
    /// in the data file are not known.
    fn current(&self, page: u64, at: Lsn) -> Result<Image> {
        let version = self.state.chains.get(&page).and_then(|c| c.last());
        match version {
            Some(PageVersion {
                bytes: Bytes::Memory(image),
                ..
            }) => Ok(image.clone()),
            Some(PageVersion {
                bytes: Bytes::Log(redo),
                ..
            }) => self.rebuild(page, redo),
            _ => Err(self.without_image(page, at)),
        }
    }

    fn without_image(&self, page: u64, at: Lsn) -> Error {
        let found =
            format!("it changes parts of page {page}, but the log holds no image of that page");
        self.damaged(at, found)
    }

    fn rebuild(&self, page: u64, redo: &[Lsn]) -> Result<Image> {
        let mut bytes = vec![0; self.page_size as usize];
        for start in redo {
            let record = self.log.read_at(*start)?;
            let decoded = Redo::decode(&record.data, self.page_size);
            let decoded = decoded.map_err(|e| self.damaged(*start, e.to_string()))?;
            match redo_kind(&decoded, page) {
                Some(PageChange::Image(image)) => bytes.copy_from_slice(image),
                Some(PageChange::Ranges(ranges)) => put_ranges(&mut bytes, ranges),
                _ => bytes.fill(0),
            }
        }
        Ok(bytes.into())
    }
}

/// Returns the records from `from` on, or from the end of a voided range that begins there. Such a range is
/// left by an append that a crash interrupted, or by a repair, and is not a commit. Where nothing was
/// committed before, the log does not skip it by itself.
fn records(
    log: &Log,
    mut from: Lsn,
) -> Result<impl Iterator<Item = logforce_core::Result<Record>> + use<>> {
    loop {
        match log.read_from(from) {
            Err(LogError::Voided {
                from: start, to, ..
            }) if start == from && to > from => from = to,
            records => return Ok(records?),
        }
    }
}

fn redo_kind<'a, 'b>(redo: &'b Redo<'a>, page: u64) -> Option<&'b PageChange<'a>> {
    redo.pages.iter().find(|(p, _)| *p == page).map(|(_, c)| c)
}
