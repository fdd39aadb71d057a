//! Backups: copies of a committed state as separate page files.
//!
//! The data file is written under a temporary name. It gets its real name once it and all other files are
//! durable. A crash before that leaves a directory without a data file. Such a directory has a `backup.tmp`,
//! or a log whose metadata names a page file. This distinguishes it from an unfinished creation, and every
//! opening refuses it.

pub(crate) mod base;
mod places;
mod sectors;
mod stream;

use crate::changes::Purpose;
use crate::dispatch::View;
use crate::error::{Error, Result, is_no_space};
use crate::files::{BACKUP_NEW, DATA, DataDir, LOCK, LOG, MAP};
use crate::header::HeaderSlots;
use crate::logged::open::meta_of;
use logforce_core::{BackupOptions, Error as LogError, Guarantee, Log, Modes, OpenMode, Verdict};
use logforce_device::{Barrier, DirEntry, File, OpenFile, System};
use logforce_format::{LoggedState, PageFileHeader, PageFileId, PageFileKind, planted};
use places::PlaceWriter;
use sectors::SectorWriter;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use stream::Stream;

/// Size of the segments of a backup's log in bytes. Nothing is appended before the owner opens it, and the
/// owner's options set the size of later segments.
const SEGMENT: u64 = 1 << 20;
/// Maximum size of a batch of a backup's log in bytes.
const BATCH: u32 = 256 << 10;

/// Makes a backup in the directory `path`, which must be missing or empty.
pub(crate) fn make(
    view: &View,
    system: &dyn System,
    path: &Path,
    mut options: BackupOptions<'_>,
) -> Result<()> {
    let require = options.required_or(Guarantee::PowerLoss);
    let progress = &mut |page, all| options.report(page, all);
    let data_dir = begin(system, path, false)?;
    let made = data_dir
        .guarantee(require, Verdict::Contradicted)
        .and_then(|_| write(view, system, &data_dir, require, progress));
    match made {
        Ok(()) => {
            data_dir.release();
            Ok(())
        }
        Err(e) => {
            remove(system, data_dir);
            Err(as_no_space(e, path, view))
        }
    }
}

/// Opens and locks the directory `path`, which must be missing or empty. With `clears`, removes what a crash
/// has left of an unfinished backup or restore.
fn begin(system: &dyn System, path: &Path, clears: bool) -> Result<DataDir> {
    let exists = || Error::DestinationExists {
        path: path.to_owned(),
    };
    // A backup that could not begin may leave the lock file behind. It is ignored here, so that a retry works.
    let is_empty = |entries: &[DirEntry]| entries.iter().all(|e| e.name == LOCK);
    let is_usable = |entries: &[DirEntry]| {
        let has = |name| entries.iter().any(|e| e.name == name);
        let is_left = |e: &DirEntry| [LOCK, LOG, MAP, BACKUP_NEW].contains(&&*e.name);
        is_empty(entries) || clears && has(BACKUP_NEW) && entries.iter().all(is_left)
    };
    match system.directory(path) {
        Ok(dir) => {
            let entries = dir.entries().map_err(Error::io("list", path))?;
            if !is_usable(&entries) {
                return Err(exists());
            }
        }
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) if e.kind() == ErrorKind::NotADirectory => return Err(exists()),
        Err(e) => return Err(Error::io("open", path)(e)),
    }
    let data_dir = DataDir::open(system, path, OpenMode::CreateNew, Modes::default())?;
    // Checks again with the lock held, because another backup may have finished there in between.
    let entries = data_dir.dir.entries().map_err(Error::io("list", path))?;
    if !is_usable(&entries) {
        return Err(exists());
    }
    if !is_empty(&entries) {
        remove_files(system, &data_dir);
        let entries = data_dir.dir.entries().map_err(Error::io("list", path))?;
        if !is_empty(&entries) {
            return Err(exists());
        }
    }
    Ok(data_dir)
}

/// Creates the data file under its temporary name. A directory that a crash leaves from now on is refused.
fn create_data(data_dir: &DataDir) -> Result<Arc<dyn File>> {
    let file = data_dir.dir.open(BACKUP_NEW, OpenFile::CREATE);
    let file = file.map_err(Error::io("create", data_dir.path_of(BACKUP_NEW)))?;
    data_dir.sync_names()?;
    Ok(file)
}

fn write(
    view: &View,
    system: &dyn System,
    data_dir: &DataDir,
    require: Guarantee,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<()> {
    let mut at = |page: u64| progress(page + 1, view.page_count());
    let path = data_dir.path_of(BACKUP_NEW);
    let file = create_data(data_dir)?;
    let source = view.header();
    let mut id = [0; 16];
    id[..8].copy_from_slice(&data_dir.runtime.random().to_le_bytes());
    id[8..].copy_from_slice(&data_dir.runtime.random().to_le_bytes());
    let id = PageFileId(id);
    let data = Stream::new(file.clone(), path, data_dir.alignment());
    let kind = match source.kind {
        PageFileKind::CopyOnWrite(_) => {
            let mut places = PlaceWriter::new(data, &source, view.page_count());
            view.each_number(&mut |page| {
                let image = view.image(page, Purpose::Read)?;
                if !is_zero(&image) {
                    places.page(page, &image)?;
                }
                at(page);
                Ok(())
            })?;
            PageFileKind::CopyOnWrite(places.finish()?)
        }
        PageFileKind::Logged(_) => {
            let map = data_dir.dir.open(MAP, OpenFile::CREATE);
            let map = map.map_err(Error::io("create", data_dir.path_of(MAP)))?;
            let stream = Stream::new(map.clone(), data_dir.path_of(MAP), data_dir.alignment());
            let mut sectors = SectorWriter::new(data, stream, &source);
            view.each_number(&mut |page| {
                let image = view.image(page, Purpose::Read)?;
                if !is_zero(&image) {
                    sectors.page(page, &image)?;
                }
                at(page);
                Ok(())
            })?;
            sectors.finish()?;
            let synced = map.barrier(Barrier::Full);
            synced.map_err(Error::io("sync", data_dir.path_of(MAP)))?;
            PageFileKind::Logged(make_log(system, data_dir, require, id)?)
        }
    };
    let header = PageFileHeader {
        id,
        sequence: 1,
        page_count: view.page_count(),
        commit: view.commit(),
        kind,
        ..source
    };
    if planted!("backup-named-early") {
        let renamed = data_dir.dir.rename(BACKUP_NEW, DATA);
        renamed.map_err(Error::io("rename", &data_dir.path))?;
        data_dir.sync_names()?;
        return HeaderSlots::complete(data_dir, &*file, DATA, &header);
    }
    // Makes the other names durable before the rename that makes the backup valid.
    data_dir.sync_names()?;
    HeaderSlots::complete(data_dir, &*file, BACKUP_NEW, &header)
}

fn is_zero(image: &[u8]) -> bool {
    image.iter().all(|b| *b == 0)
}

/// Makes the log of the backup: empty, with the page file's id in its metadata.
fn make_log(
    system: &dyn System,
    data_dir: &DataDir,
    require: Guarantee,
    id: PageFileId,
) -> Result<LoggedState> {
    let log_options = logforce_core::Options::new()
        .require(require)
        .require_verdict(Verdict::Contradicted)
        .calibrate(false)
        .live_stats(false)
        .segment_size(SEGMENT)
        .max_batch_size(BATCH.into())
        .buffer_size(BATCH.into())
        .max_spare_segments(0);
    let log = Log::open(
        system,
        data_dir.path_of(LOG),
        OpenMode::CreateNew,
        log_options,
    )?;
    let state = LoggedState {
        log_id: log.id(),
        redo_from: log.tail_lsn(),
    };
    log.set_meta(&meta_of(id))?;
    log.close()?;
    Ok(state)
}

/// Removes everything that was made, as far as possible. The caller returns the error that led here.
fn remove(system: &dyn System, data_dir: DataDir) {
    remove_files(system, &data_dir);
    data_dir.release();
    let _ = data_dir.dir.remove(LOCK);
    let _ = data_dir.dir.sync();
    let path = data_dir.path.clone();
    drop(data_dir);
    let _ = system.remove_empty_directory(&path);
}

/// Removes all files but the lock file, as far as possible.
fn remove_files(system: &dyn System, data_dir: &DataDir) {
    // Removes the data file first and the "unfinished backup" marker last, because a crash may undo the last
    // removal.
    let _ = data_dir.dir.remove(DATA);
    let _ = data_dir.dir.sync();
    let _ = data_dir.dir.remove(MAP);
    let log = data_dir.path_of(LOG);
    if let Ok(dir) = system.directory(&log) {
        for entry in dir.entries().unwrap_or_default() {
            let _ = dir.remove(&entry.name);
        }
        // Windows does not remove an open directory. The same applies to `data_dir` below.
        drop(dir);
        let _ = system.remove_empty_directory(&log);
    }
    let _ = data_dir.dir.remove(BACKUP_NEW);
}

/// Turns a lack of space into `NoSpace` for the whole backup, because nothing of the backup remains.
fn as_no_space(error: Error, path: &Path, view: &View) -> Error {
    let source = match error {
        Error::Io { source, .. } | Error::Log(LogError::Io { source, .. })
            if is_no_space(&source) =>
        {
            source
        }
        Error::Log(LogError::NoSpace { source, .. }) => source,
        other => return other,
    };
    let mut pages: u64 = 0;
    let counted = view.each_number(&mut |_| {
        pages += 1;
        Ok(())
    });
    if counted.is_err() {
        pages = view.page_count();
    }
    Error::NoSpace {
        path: path.to_owned(),
        need: pages.saturating_mul(view.header().page_size.into()),
        source,
    }
}
