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

/// Examines the directory that the user names, else the one that the configuration or the server names. Without
/// either it is the present directory, but never in place of one that cannot be opened: the disk may be another.
pub fn examine(
    args: &Args,
    settings: &SystemSettings,
    answers: Option<&Answers>,
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
    let Some(answers) = answers else {
        return known(Path::new("."));
    };
    let unseen = |why: String| Ok(Below::Unseen(why));
    if answers.is_remote {
        return unseen("the server is on another machine: run this there, or give DIR".to_owned());
    }
    let Some(named) = configured(settings, answers) else {
        return unseen("the directory of the files is not named: give DIR".to_owned());
    };
    if named.is_relative() && answers.directory.is_none() {
        return unseen(format!(
            "{} is relative to the directory in which the server was started: give DIR",
            named.display()
        ));
    }
    let log = named.join(settings.log_below);
    let has_log = !settings.log_below.is_empty() && log.is_dir();
    let dir = if has_log { log } else { named };
    match dir.read_dir() {
        Ok(_) => known(&dir),
        Err(e) => unseen(format!(
            "{} cannot be opened ({e}): run this as the user of the server, or give DIR",
            dir.display()
        )),
    }
}

/// Returns the directory that the configuration names. A relative one starts at the directory that a later name
/// of the table holds.
fn configured(settings: &SystemSettings, answers: &Answers) -> Option<PathBuf> {
    if let Some(dir) = &answers.directory {
        return Some(dir.clone());
    }
    let mut dir: Option<PathBuf> = None;
    for name in settings.data_directory.iter().rev() {
        let found = answers.configuration.of(name);
        let Some(found) = found.filter(|f| !f.value.is_empty()) else {
            continue;
        };
        let first = found.value.split(',').next().unwrap_or_default().trim();
        dir = match (dir, first) {
            // Joining an empty path would add a separator.
            (Some(base), "." | "./") => Some(base),
            (Some(base), first) => Some(base.join(first)),
            (None, first) => Some(PathBuf::from(first)),
        };
    }
    dir
}
