//! Archives of page files: base copies, and the log behind them.

mod damage;
mod model;
mod moments;
mod processes;
mod refusals;

use logforce::pages::{Options, PageFile};
use logforce::{Guarantee, Lsn};
use logforce_archive::object::Base;
use logforce_archive::{Archive, ArchiveOptions, AttachOptions, RestoreOptions, RestoreTo, Result};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn temp() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Options with short distances, so that the log is truncated while it is archived.
fn options() -> Options {
    let log = logforce::Options::new()
        .calibrate(false)
        .segment_size(128 << 10);
    Options::new()
        .require(Guarantee::ProcessCrash)
        .page_size(512)
        .checkpoint_distance(64 << 10)
        .log(log)
}

/// Opens the archive in a new directory below `home`.
fn archive(home: &Path) -> Archive {
    let path = home.join("bucket");
    std::fs::create_dir_all(&path).unwrap();
    Archive::open(path.to_str().unwrap(), ArchiveOptions::default()).unwrap()
}

fn attach_options() -> AttachOptions {
    AttachOptions::new()
        .delay(Duration::from_millis(5))
        .segment_size(1 << 20)
}

/// Makes a base copy, within a minute.
fn base(archive: &Archive, path: &Path) -> Result<Base> {
    let begun = Instant::now();
    archive.base(
        path,
        &|| begun.elapsed() > Duration::from_secs(60),
        &mut |_| {},
    )
}

fn restore(archive: &Archive, to: &Path, end: RestoreTo) -> Result<Lsn> {
    let options = RestoreOptions::new()
        .require(Guarantee::ProcessCrash)
        .to(end);
    Ok(archive.restore(to, &options, &mut |_| {})?.end)
}

fn open(path: &Path) -> PageFile {
    logforce::pages::open_existing(path, options()).unwrap()
}

/// Returns the files below a directory of the archive, in order.
fn objects(home: &Path, folder: &str) -> Vec<PathBuf> {
    let mut stack = vec![home.join("bucket").join(folder)];
    let mut files = Vec::new();
    while let Some(path) = stack.pop() {
        for entry in std::fs::read_dir(&path).into_iter().flatten() {
            let entry = entry.unwrap();
            match entry.file_type().unwrap().is_dir() {
                true => stack.push(entry.path()),
                false => files.push(entry.path()),
            }
        }
    }
    files.sort();
    files
}
