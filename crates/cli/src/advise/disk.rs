//! The directories whose disks decide what a setting gives.

use super::Args;
use super::server::Answers;
use anyhow::{Context, bail};
use logforce::disk::calibration;
use logforce_device::{Facts, Platform};
use logforce_systems::settings::{self, Directory, SystemSettings};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Disk below a directory of a system.
pub struct Disk {
    /// Directory that was examined.
    pub dir: PathBuf,
    /// Facts of it.
    pub facts: Facts,
}

/// All disks that hold acknowledged data of a system.
#[derive(Default)]
pub struct Disks {
    /// Disks that were examined, the weakest first.
    pub seen: Vec<Disk>,
    /// Reasons why others were not.
    pub unseen: Vec<String>,
    /// Directories that DIR stands for, in sentences.
    pub notes: Vec<String>,
}

impl Disks {
    /// Returns the disk that decides.
    pub fn weakest(&self) -> Option<&Disk> {
        self.seen.first()
    }

    /// Returns the facts of all disks; `None` if there is one that was not examined.
    pub fn facts(&self) -> Vec<Option<&Facts>> {
        let is_open = self.seen.is_empty() || !self.unseen.is_empty();
        let seen = self.seen.iter().map(|d| Some(&d.facts));
        seen.chain(is_open.then_some(None)).collect()
    }

    /// Returns the platform of the disks.
    pub fn platform(&self) -> Platform {
        let weakest = self.weakest();
        weakest.map_or(Platform::HERE, |d| d.facts.platform)
    }
}

/// Examines the directories that the configuration or the server names, and the one that the user names. Without
/// any it is the present directory, but never in place of one that cannot be opened: the disk may be another.
pub fn examine(
    args: &Args,
    settings: &SystemSettings,
    answers: Option<&Answers>,
) -> anyhow::Result<Disks> {
    let cache = args.cache.clone().or_else(calibration::default_cache);
    let mut disks = Disks::default();
    let mut dirs: Vec<PathBuf> = Vec::new();
    if let Some(dir) = &args.dir {
        let unusable =
            |why: &str| format!("{} {why}: give the directory of the files", dir.display());
        match dir.metadata() {
            Ok(found) if found.is_dir() => dirs.push(dir.clone()),
            Ok(_) => bail!(unusable("is not a directory")),
            Err(e) if e.kind() == ErrorKind::NotFound => bail!(unusable("does not exist")),
            Err(e) => return Err(e).context(format!("cannot look at {}", dir.display())),
        }
    }
    match (answers, &args.dir) {
        (None, None) => dirs.push(PathBuf::from(".")),
        (None, Some(_)) => {}
        (Some(answers), None) if answers.is_remote => disks
            .unseen
            .push("the server is on another machine: run this there, or give DIR".to_owned()),
        (Some(answers), Some(_)) if answers.is_remote => {}
        (Some(answers), given) => {
            let (named, unnamed) = named(settings, answers, given.as_deref());
            for dir in named {
                match dir.read_dir() {
                    _ if dir.is_relative() && answers.directory.is_none() => {
                        disks.missing(
                            args,
                            &dir,
                            "is relative to the directory in which the server was started",
                        );
                    }
                    Ok(_) => dirs.push(dir),
                    Err(e) => {
                        let why = format!("cannot be opened ({e})");
                        disks.missing(args, &dir, &why);
                    }
                }
            }
            if given.is_none() {
                disks.unseen.extend(unnamed);
            }
        }
    }
    for dir in with_logs(settings, dirs) {
        if disks.seen.iter().all(|d| d.dir != dir) {
            let facts = calibration::known(&dir, cache.as_deref())?.facts;
            disks.seen.push(Disk { dir, facts });
        }
    }
    disks
        .seen
        .sort_by_key(|d| settings::strength(settings, &d.facts));
    if let [_, _, ..] = disks.seen.as_slice() {
        let one = |d: &Disk| format!("{} ({})", d.dir.display(), d.facts.filesystem);
        let all: Vec<String> = disks.seen.iter().map(one).collect();
        disks.notes.push(format!(
            "The weakest of these directories decides: {}.",
            all.join(", ")
        ));
    }
    Ok(disks)
}

impl Disks {
    /// Notes a directory that cannot be examined. DIR stands for it, if it is given.
    fn missing(&mut self, args: &Args, dir: &Path, why: &str) {
        let dir = dir.display();
        match &args.dir {
            Some(given) => self.notes.push(format!(
                "{dir} {why}: {} stands for it.",
                given.display()
            )),
            None => self.unseen.push(format!(
                "{dir} {why}: run this where and as the user under whom the server runs, or give DIR"
            )),
        }
    }
}

/// Returns the directories, each after the one below it that may be on another disk.
fn with_logs(settings: &SystemSettings, dirs: Vec<PathBuf>) -> Vec<PathBuf> {
    let below = settings.directories.iter().map(|d| d.below);
    let below: Vec<&str> = below.filter(|below| !below.is_empty()).collect();
    let mut all = Vec::new();
    for dir in dirs {
        let logs = below.iter().map(|below| dir.join(below));
        all.extend(logs.filter(|log| log.is_dir()));
        all.push(dir);
    }
    all
}

/// Returns the directories that the configuration names, and why others are not known.
fn named(
    settings: &SystemSettings,
    answers: &Answers,
    given: Option<&Path>,
) -> (Vec<PathBuf>, Vec<String>) {
    if let Some(dir) = &answers.directory {
        return (vec![dir.clone()], Vec::new());
    }
    let unnamed = || "the directory of the files is not named: give DIR".to_owned();
    if settings.directories.is_empty() {
        return (Vec::new(), vec![unnamed()]);
    }
    let found = |directory: &Directory| {
        let mut found = directory
            .names
            .iter()
            .filter_map(|name| answers.configuration.of(name));
        found.find(|f| !f.value.is_empty())
    };
    let (mut all, mut unknown) = (Vec::new(), Vec::new());
    let mut first = given.map(Path::to_owned);
    for directory in settings.directories {
        let Some(found) = found(directory) else {
            if directory.is_needed {
                let name = directory.names.join(" or ");
                unknown.push(format!("{} ({name})", unnamed()));
            }
            continue;
        };
        for text in found
            .value
            .split(',')
            .map(str::trim)
            .filter(|t| !t.is_empty())
        {
            let path = match &first {
                // Joining an empty path would add a separator.
                Some(first) if settings.are_below_first && matches!(text, "." | "./") => {
                    first.clone()
                }
                Some(first) if settings.are_below_first => first.join(text),
                _ => PathBuf::from(text),
            };
            let path = match path.parent() {
                Some(parent) if directory.is_file => parent.to_owned(),
                _ => path,
            };
            if !all.contains(&path) {
                all.push(path);
            }
        }
        first = first.or_else(|| all.first().cloned());
    }
    (all, unknown)
}
