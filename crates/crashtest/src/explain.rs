//! The cause of a loss: which files are not on the disk at an acknowledgement, and which one
//! additional sync stops the losses.
//!
//! The program waits in each acknowledgement until the harness has counted it. Meanwhile the harness asks the kernel
//! which files have dirty pages, or syncs one object on the program's behalf, and repeats the cuts.

use crate::acks::Hook;
use crate::beside::collect;
use crate::live;
use crate::parts::{Part, Rehearsal};
use crate::stage::{Checked, Stage};
use crate::states;
use crate::testbed::Filesystem;
use crate::testbed::needs::in_path;
use anyhow::Result;
use logforce_device_os::dirty_pages;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Acknowledgements at which the page cache is examined.
const EXAMINED: u64 = 150;
/// Largest number of objects that are tried.
const MOST_OBJECTS: usize = 12;
/// Times that the program is killed without a cut.
const KILLS: u64 = 8;
/// Probability with which an object that does not help may look as if it did.
const DOUBT: f64 = 0.01;

/// Something that can be synced.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind", content = "name")]
pub enum Object {
    /// Nothing: the program as it is.
    Nothing,
    /// The files with this name below the program's directory. `#` stands for any number.
    File(String),
    /// A directory below the program's; `.` is that itself.
    Directory(String),
    /// Every file with dirty pages, before each rename.
    FilesBeforeRenames,
    /// The whole filesystem.
    Everything,
}

impl std::fmt::Display for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Object::Nothing => write!(f, "nothing (as it is)"),
            Object::File(name) => write!(f, "fsync of {name}"),
            Object::Directory(name) if name == "." => write!(f, "fsync of the directory"),
            Object::Directory(name) => write!(f, "fsync of the directory {name}"),
            Object::FilesBeforeRenames => write!(f, "fsync of each file before its rename"),
            Object::Everything => write!(f, "syncfs"),
        }
    }
}

/// A file whose contents were not on the disk at acknowledgements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Dirty {
    /// Name below the program's directory; `#` stands for any number.
    pub name: String,
    /// Acknowledgements at which it had dirty pages.
    pub acks: u64,
    /// Most bytes in its dirty pages.
    pub bytes: u64,
}

/// The cuts repeated with one additional sync before each acknowledgement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Experiment {
    /// The object that the harness synced.
    pub object: Object,
    /// Number of checks.
    pub checks: u64,
    /// Checks that failed.
    pub failed: u64,
}

impl Experiment {
    /// Returns true if it synced a single object before the acknowledgement.
    fn is_single(&self) -> bool {
        matches!(self.object, Object::File(_) | Object::Directory(_))
    }
}

/// The findings about a loss.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The filesystem of the experiments.
    pub filesystem: Filesystem,
    /// Acknowledgements at which the page cache was examined; 0 if the kernel has no `cachestat` (before Linux 6.5).
    pub examined: u64,
    /// Files that were dirty at some of them.
    pub dirty: Vec<Dirty>,
    /// Part that was repeated: live cuts or states.
    pub repeated: Part,
    /// The experiments, that of nothing first.
    pub experiments: Vec<Experiment>,
    /// Times that the program was ended by `kill -9` while the disk kept its power; 0 if one sync stops the losses.
    pub kills: u64,
    /// Checks that failed after those.
    pub lost_by_kill: u64,
    /// The conclusion, in words.
    pub conclusion: String,
}

/// Returns the name of a file below `dir`, with `#` for its numbers, by which the segments of a log are one object.
fn name(path: &Path, dir: &Path) -> String {
    let name = path.strip_prefix(dir).unwrap_or(path).to_string_lossy();
    let mut out = String::new();
    for c in name.chars() {
        match c.is_ascii_digit() {
            true if out.ends_with('#') => {}
            true => out.push('#'),
            false => out.push(c),
        }
    }
    out
}

fn directories(dir: &Path, found: &mut Vec<PathBuf>) {
    found.push(dir.to_owned());
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            directories(&entry.path(), found);
        }
    }
}

/// Findings of the hook that examines the page cache.
#[derive(Default)]
struct Seen {
    examined: u64,
    files: BTreeMap<String, Dirty>,
    objects: Vec<Object>,
}

impl Seen {
    fn examine(&mut self, dir: &Path) {
        if self.examined >= EXAMINED {
            return;
        }
        let (mut files, mut dirs) = (Vec::new(), Vec::new());
        collect(dir, &mut files);
        directories(dir, &mut dirs);
        let mut here: BTreeMap<String, u64> = BTreeMap::new();
        for path in &files {
            let name = name(path, dir);
            self.object(Object::File(name.clone()));
            let pages = File::open(path).map(|file| dirty_pages(file.as_fd(), 0..u64::MAX));
            let Ok(Ok(pages)) = pages else { continue };
            *here.entry(name).or_default() += pages * rustix::param::page_size() as u64;
        }
        for path in &dirs {
            let name = name(path, dir);
            let name = if name.is_empty() {
                ".".to_owned()
            } else {
                name
            };
            self.object(Object::Directory(name));
        }
        self.examined += 1;
        for (name, bytes) in here.into_iter().filter(|(_, bytes)| *bytes > 0) {
            let known = self.files.entry(name.clone()).or_insert(Dirty {
                name,
                acks: 0,
                bytes: 0,
            });
            known.acks += 1;
            known.bytes = known.bytes.max(bytes);
        }
    }

    fn object(&mut self, object: Object) {
        if !self.objects.contains(&object) && self.objects.len() < MOST_OBJECTS {
            self.objects.push(object);
        }
    }
}

/// Syncs an object below `dir`. A file that vanishes meanwhile needs no sync.
fn sync(object: &Object, dir: &Path) {
    let all = |paths: Vec<PathBuf>, wanted: &str| {
        for path in paths {
            let name = name(&path, dir);
            if (name == wanted || (name.is_empty() && wanted == "."))
                && let Ok(file) = File::open(&path)
            {
                let _ = file.sync_all();
            }
        }
    };
    let mut paths = Vec::new();
    match object {
        Object::Nothing | Object::FilesBeforeRenames => {}
        Object::File(name) => {
            collect(dir, &mut paths);
            all(paths, name);
        }
        Object::Directory(name) => {
            directories(dir, &mut paths);
            all(paths, name);
        }
        Object::Everything => {
            if let Ok(dir) = File::open(dir) {
                let _ = rustix::fs::syncfs(&dir);
            }
        }
    }
}

/// Looks for the cause of losses. `rate` is the share of the checks of `part` that failed.
pub(crate) fn explain(
    stage: &mut Stage<'_>,
    rehearsal: &Rehearsal,
    part: Part,
    rate: f64,
    progress: &mut dyn FnMut(&str),
) -> Result<Explanation> {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let looking = seen.clone();
    progress("looking at the page cache");
    stage.hook = Some(Arc::new(move |dir: &Path| {
        let looking = looking.clone();
        let dir = dir.to_owned();
        let hook: Hook = Box::new(move || {
            let mut seen = looking.lock().unwrap_or_else(PoisonError::into_inner);
            seen.examine(&dir);
        });
        hook
    }));
    let again = live::rehearse(stage, &mut |_| Ok(true));
    stage.hook = None;
    if let Err(why) = again? {
        anyhow::bail!("while looking for the cause: {why}");
    }
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    let objects = std::mem::take(&mut seen.objects);
    let (examined, dirty) = (seen.examined, std::mem::take(&mut seen.files));
    drop(seen);
    let mut wanted = enough(part, rate);
    let tried = std::iter::once(Object::Nothing)
        .chain(objects)
        .chain([Object::Everything, Object::FilesBeforeRenames]);
    let mut experiments: Vec<Experiment> = Vec::new();
    for object in tried {
        // Slow, and of use only where no single sync before the acknowledgement helps.
        let is_mended = experiments.iter().any(|e| e.is_single() && e.failed == 0);
        if object == Object::FilesBeforeRenames && (is_mended || !in_path("strace")) {
            continue;
        }
        progress(&format!("cuts again, with {object}"));
        let (checks, failed) = repeat(stage, rehearsal, part, &object, wanted)?;
        if object == Object::Nothing && failed > 0 {
            // Chance may have made the first share too high.
            wanted = wanted.max(enough(part, failed as f64 / checks as f64));
        }
        experiments.push(Experiment {
            object,
            checks,
            failed,
        });
    }
    stage.hook = None;
    let mut kills = (0, 0);
    if !experiments.iter().any(|e| e.is_single() && e.failed == 0) {
        progress("kill -9 without a cut");
        for _ in 0..KILLS {
            let _ = live::rehearse(stage, &mut |case| {
                kills.0 += 1;
                kills.1 += u64::from(matches!(case.checked, Checked::Failed(..)));
                Ok(true)
            })?;
        }
    }
    let dirty: Vec<Dirty> = dirty.into_values().collect();
    Ok(Explanation {
        filesystem: stage.filesystem,
        examined,
        kills: kills.0,
        lost_by_kill: kills.1,
        conclusion: conclusion(&experiments, &dirty, examined, kills),
        dirty,
        repeated: part,
        experiments,
    })
}

/// Returns the number of checks after which a loss in this share of them would have shown.
fn enough(part: Part, rate: f64) -> u64 {
    let most = if part == Part::States { 300.0 } else { 60.0 };
    let checks = DOUBT.ln() / (1.0 - rate.clamp(0.01, 0.9)).ln();
    checks.ceil().clamp(12.0, most) as u64
}

/// Repeats a part with an additional sync; returns the number of checks, and of failed ones.
fn repeat(
    stage: &mut Stage<'_>,
    rehearsal: &Rehearsal,
    part: Part,
    object: &Object,
    wanted: u64,
) -> Result<(u64, u64)> {
    let object = object.clone();
    stage.syncs_before_renames = object == Object::FilesBeforeRenames;
    stage.hook = (object != Object::Nothing).then(|| {
        let hook: crate::stage::HookFor = Arc::new(move |dir: &Path| {
            let (object, dir) = (object.clone(), dir.to_owned());
            let hook: Hook = Box::new(move || sync(&object, &dir));
            hook
        });
        hook
    });
    let mut rehearsal = rehearsal.clone();
    if stage.syncs_before_renames {
        rehearsal.first_ack_ms += 500;
    }
    let rehearsal = &rehearsal;
    let (mut checks, mut failed) = (0, 0);
    let mut count = |case: live::Case<'_>| {
        checks += 1;
        failed += u64::from(matches!(case.checked, Checked::Failed(..)));
        Ok(checks < wanted)
    };
    let repeated = match part {
        Part::States => states::states(stage, rehearsal, &mut count),
        _ => live::cuts(stage, rehearsal, part, &mut count),
    };
    stage.syncs_before_renames = false;
    repeated?;
    Ok((checks, failed))
}

/// Puts the findings into words.
fn conclusion(
    experiments: &[Experiment],
    dirty: &[Dirty],
    examined: u64,
    kills: (u64, u64),
) -> String {
    let failed = |wanted: &Object| {
        let found = experiments.iter().find(|e| e.object == *wanted);
        found.map_or(0, |e| e.failed)
    };
    let as_it_is = failed(&Object::Nothing);
    if as_it_is == 0 {
        return "The repeated cuts lost nothing, so no cause was found: give more --cuts and --states.".to_owned();
    }
    let mending = experiments
        .iter()
        .filter(|e| e.is_single() && e.failed == 0);
    let mending: Vec<&Experiment> = mending.collect();
    let names: Vec<String> = mending.iter().map(|e| e.object.to_string()).collect();
    match &*names {
        [] if experiments.iter().any(|e| e.object == Object::FilesBeforeRenames && e.failed == 0) => {
            "Missing before a rename: fsync of the file that is renamed. With it nothing was lost.".to_owned()
        }
        [] if kills.1 > 0 => {
            "It is acknowledged before it is written to a file: kill -9 alone loses it, without a power cut.".to_owned()
        }
        [] if failed(&Object::Everything) == 0 => {
            "No single sync stops the losses, but syncing everything does: more than one is missing.".to_owned()
        }
        [] => {
            let never = dirty.is_empty() && examined > 0;
            let known = if never { " No file was dirty at an acknowledgement." } else { "" };
            format!(
                "No sync before the acknowledgement stops the losses.{known} What is acknowledged is overwritten or \
                 replaced later by something that a cut can tear (an update in place, a rename of a file that is not \
                 synced), or it is acknowledged before it is written, or recovery refuses what a cut leaves."
            )
        }
        [one] => format!("Missing before the acknowledgement: {one}. With it nothing was lost."),
        several => {
            let directories = mending.iter().filter(|e| matches!(e.object, Object::Directory(_)));
            let rule = match directories.count() {
                0 => "",
                _ => " An fsync that has something to write may commit the whole journal of this filesystem; POSIX \
                      makes a name durable by fsync of its directory alone.",
            };
            format!("Missing before the acknowledgement: either of {}.{rule}", several.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_have_one_name() {
        let name = |path: &str| name(Path::new(path), Path::new("/d"));
        assert_eq!(name("/d/wal-00012.log"), "wal-#.log");
        assert_eq!(name("/d/a/3/b"), "a/#/b");
        assert_eq!(name("/d"), "");
    }

    fn experiment(object: Object, failed: u64) -> Experiment {
        Experiment {
            object,
            checks: 10,
            failed,
        }
    }

    #[test]
    fn what_stops_the_losses_is_named() {
        let file = || Object::File("db".to_owned());
        let dir = || Object::Directory(".".to_owned());
        let told = |f: u64, d: u64, all: u64| {
            let list = [
                experiment(Object::Nothing, 5),
                experiment(file(), f),
                experiment(dir(), d),
                experiment(Object::Everything, all),
            ];
            conclusion(&list, &[], 10, (8, 0))
        };
        assert!(told(0, 4, 0).contains("acknowledgement: fsync of db."));
        assert!(told(3, 0, 0).contains("acknowledgement: fsync of the directory."));
        assert!(told(0, 0, 0).contains("either of fsync of db, fsync of the directory."));
        assert!(told(3, 3, 0).contains("more than one"));
        assert!(told(3, 3, 3).contains("No sync before"));
    }
}
