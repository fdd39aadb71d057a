//! Checks before an opening: does a log exist, and does the mode allow that?

use crate::error::{Error, Result};
use crate::names;
use crate::options::OpenMode;
use crate::recovery::listing;
use crate::storage::control_file::ControlFile;
use logforce_device::{DirEntry, Directory, Runtime};
use logforce_format::{Control, LogId, Lsn};
use std::sync::Arc;

/// Returns true if there is a log. Fails if that does not match the mode.
pub(super) fn check_directory(dir: &Arc<dyn Directory>, mode: OpenMode) -> Result<bool> {
    let path = dir.path().to_owned();
    let mut entries = dir.entries().map_err(Error::io("list", &path))?;
    let has_control = |entries: &[DirEntry]| entries.iter().any(|e| e.name == names::CONTROL);
    if !has_control(&entries) {
        // A single listing without a control file does not prove that there is no log, and a new log
        // would overwrite an existing one. So lists until the names are stable. (If there is a control
        // file, a running writer may change the names all the time.)
        entries = listing::list(dir)?;
        if let Err(e) = listing::check_absence(dir, &entries, names::CONTROL) {
            // Another process may have created the control file since.
            entries = listing::list(dir)?;
            if !has_control(&entries) {
                return Err(e);
            }
        }
    }
    // Otherwise an opening would change the only copy of the records that a repair has removed.
    if entries.iter().any(|e| e.name == names::CONTROL_COPY) {
        let why = "it contains copies made by a repair: read them with `logforce salvage`";
        return Err(Error::NotALog {
            path,
            why: why.to_owned(),
        });
    }
    let kinds: Vec<_> = entries.iter().map(|e| (names::kind(&e.name), e)).collect();
    if kinds.iter().any(|(k, _)| *k == names::NameKind::Control) {
        if mode != OpenMode::CreateNew {
            return Ok(true);
        }
        return match ControlFile::load(dir) {
            // No segment was ever used: the opening that created the log failed or crashed.
            Ok(loaded) if loaded.control.prepared_end == Lsn::ORIGIN => Ok(true),
            Err(e @ Error::Io { .. }) => Err(e),
            _ => Err(Error::AlreadyExists { path }),
        };
    }
    if kinds.iter().any(|(k, _)| *k == names::NameKind::Backup) {
        return Err(Error::NoLog {
            path,
            why: names::UNFINISHED_BACKUP.to_owned(),
        });
    }
    // Never creates a log over the remains of another one, whose acknowledged records would be lost silently.
    if let Some((_, e)) = kinds.iter().find(|(k, _)| {
        matches!(
            k,
            names::NameKind::Segment | names::NameKind::Spare | names::NameKind::SetAside
        )
    }) {
        let why = format!(
            "its file '{}' is missing, but it contains files of a log, such as '{}': restore '{0}' from a copy, or inspect the log with `logforce dump --salvage` and save its records with `logforce salvage`",
            names::CONTROL,
            e.name
        );
        return Err(Error::NoLog { path, why });
    }
    if let Some((_, e)) = kinds.iter().find(|(k, _)| *k == names::NameKind::Foreign) {
        let why = format!("it contains '{}', but no '{}' file", e.name, names::CONTROL);
        return Err(Error::NotALog { path, why });
    }
    match mode {
        OpenMode::OpenExisting => Err(Error::NoLog {
            path,
            why: "the directory is empty".to_owned(),
        }),
        _ => Ok(false),
    }
}

pub(super) fn create(dir: &Arc<dyn Directory>, runtime: &dyn Runtime) -> Result<()> {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&runtime.random().to_le_bytes());
    id[8..].copy_from_slice(&runtime.random().to_le_bytes());
    let control = Control {
        log_id: LogId(id),
        sequence: 1,
        clean: true,
        ..Control::default()
    };
    ControlFile::create(dir, &control, None)
}
