//! The directory whose disk decides what a setting gives.

use super::Args;
use super::server::Answers;
use anyhow::{Context, bail};
use logforce::disk::calibration;
use logforce_device::Facts;
use logforce_systems::settings::SystemSettings;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Disk below a system.
pub struct Disk {
    /// Directory that was examined.
    pub dir: PathBuf,
    /// Facts of it.
    pub facts: Facts,
}

/// The disk, or the reason why there is none to examine.
pub enum Below {
    /// It was examined.
    Disk(Box<Disk>),
    /// It was not, for this reason.
    Unseen(String),
}

impl Below {
    /// Returns the disk, if it was examined.
    pub fn disk(&self) -> Option<&Disk> {
        match self {
            Below::Disk(disk) => Some(disk),
            Below::Unseen(_) => None,
        }
    }
}

/// Examines the directory that the user names, else the one that the configuration names, else the present one.
/// Adds a note if another directory took its place.
pub fn examine(
    args: &Args,
    settings: &SystemSettings,
    answers: Option<&Answers>,
    notes: &mut Vec<String>,
) -> anyhow::Result<Below> {
    let cache = args.cache.clone().or_else(calibration::default_cache);
    let known = |dir: &Path| {
        let known = calibration::known(dir, cache.as_deref())?;
        anyhow::Ok(Below::Disk(Box::new(Disk {
            dir: dir.to_owned(),
            facts: known.facts,
        })))
    };
    if let Some(dir) = &args.dir {
        let unusable =
            |why: &str| format!("{} {why}: give the directory of the files", dir.display());
        match dir.metadata() {
            Ok(found) if found.is_dir() => return known(dir),
            Ok(_) => bail!(unusable("is not a directory")),
            Err(e) if e.kind() == ErrorKind::NotFound => bail!(unusable("does not exist")),
            Err(e) => return Err(e).context(format!("cannot look at {}", dir.display())),
        }
    }
    if answers.is_some_and(|a| a.is_remote) {
        let why = "the server is on another machine: run this command there, or give DIR";
        return Ok(Below::Unseen(why.to_owned()));
    }
    let Some(named) = answers.and_then(|a| configured(args, settings, a)) else {
        if answers.is_some() {
            let note = "No setting names the directory of the files: the present one was examined. Give DIR.";
            notes.push(note.to_owned());
        }
        return known(Path::new("."));
    };
    let log = named.join(settings.log_below);
    let has_log = !settings.log_below.is_empty() && log.is_dir();
    let wanted = if has_log { log } else { named };
    let Some(dir) = nearest(&wanted) else {
        let why = format!(
            "its directory {} does not exist here: give DIR",
            wanted.display()
        );
        return Ok(Below::Unseen(why));
    };
    if dir != wanted {
        notes.push(format!(
            "{} may not be opened by this user, so {} was examined: run this as the user of the server if \
             another disk is mounted in between.",
            wanted.display(),
            dir.display()
        ));
    }
    known(dir)
}

/// Returns the directory that the configuration names. A relative one starts at the configuration's.
fn configured(args: &Args, settings: &SystemSettings, answers: &Answers) -> Option<PathBuf> {
    if let Some(dir) = &answers.directory {
        return Some(dir.clone());
    }
    let set = |name: &&str| {
        let found = answers.configuration.of(name);
        found.filter(|f| !f.value.is_empty())
    };
    let found = settings.data_directory.iter().find_map(set)?;
    let first = found.value.split(',').next().unwrap_or_default().trim();
    let base = args.config.as_deref().and_then(Path::parent);
    Some(base.unwrap_or(Path::new("")).join(first))
}

/// Returns the directory, or the nearest one above it that this user may list. `None` if it does not exist.
fn nearest(wanted: &Path) -> Option<&Path> {
    let mut is_missing = false;
    let found = wanted.ancestors().find(|dir| match dir.read_dir() {
        Ok(_) => true,
        Err(e) => {
            is_missing |= e.kind() != ErrorKind::PermissionDenied;
            false
        }
    })?;
    (!is_missing && !found.as_os_str().is_empty()).then_some(found)
}
