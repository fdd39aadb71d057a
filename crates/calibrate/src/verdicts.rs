//! What power cuts have shown, in a file of a directory: a log's own, or one that programs share.
//!
//! It lies beside the calibrations and not among them: those may be dropped and measured again, and
//! a program that knows nothing of verdicts rewrites their file. What is read may have been written
//! by anybody: it is taken only if it could have been written here, and it can make a log refuse a
//! method, never trust one more than the system's facts allow.

mod stored;

use crate::evidence::{contents, put};
use logforce_device::{CutResult, Directory, Facts, Method, OpenFile, Platform, Runtime};
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use stored::Held;

/// The file's name.
pub const NAME: &str = "verdicts";

/// Runs that a file holds; the oldest that lost nothing gives way.
const MOST: usize = 64;

/// What to do about a file that cannot be read, if nothing better.
const OR_ELSE: &str =
    "move it away: what it recorded is then forgotten, and `logforce powercut` can show it again";

/// A longer file is none of ours, in bytes: an entry takes about 2 KiB.
const LONGEST: u64 = 512 << 10;

/// Where evidence of cuts holds: the filesystem, on that device, mounted like that.
///
/// Not the device's kernel name, which changes with the order in which devices are found; not the
/// kernel, which a device that drops flushes does not care for (it is shown with the evidence); not
/// the write unit, since a flush covers all.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Place {
    /// Which filesystem it is: [`Facts::volume`].
    pub volume: String,
    /// The filesystem's name.
    pub filesystem: String,
    /// Its mount options.
    pub mount_options: String,
    /// The device's model.
    pub model: String,
}

impl Place {
    /// The place of these facts; `None` where the system cannot tell one filesystem from
    /// others for good ([`Facts::lasting_volume`]).
    pub fn of(facts: &Facts) -> Option<Place> {
        let bounded = crate::key::bounded;
        let model = facts.device.as_ref().map(|d| d.model.as_str());
        facts.lasting_volume().map(|volume| Place {
            volume: bounded(volume),
            filesystem: bounded(&facts.filesystem),
            mount_options: bounded(&facts.mount_options),
            model: bounded(model.unwrap_or_default()),
        })
    }
}

/// Whether a recorded place is the one that is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum IsHere {
    No,
    /// Something of it cannot be compared, and nothing speaks against it.
    Perhaps,
    Yes,
}

impl Place {
    /// Whether it is the place of these facts. What the system does not tell now, or did not tell
    /// then, or says in another form, speaks neither for it nor against it.
    fn is_here(&self, facts: &Facts) -> IsHere {
        let bounded = crate::key::bounded;
        let compared = |known: bool, same: bool| match (known, same) {
            (true, true) => IsHere::Yes,
            (true, false) => IsHere::No,
            (false, _) => IsHere::Perhaps,
        };
        let is_seen = facts.platform != Platform::Linux || !facts.mount_options.is_empty();
        // The number that `statfs` gives is no UUID, though it may be of the same filesystem.
        let is_number = |volume: &str| volume.starts_with("fsid:");
        let volume = facts.lasting_volume().unwrap_or_default();
        let model = facts.device.as_ref().map_or("", |d| &d.model);
        [
            compared(
                !volume.is_empty() && is_number(volume) == is_number(&self.volume),
                self.volume == bounded(volume),
            ),
            // Without a mount the name is a guess: of ext3, `ext4`.
            compared(is_seen, self.filesystem == bounded(&facts.filesystem)),
            compared(is_seen, self.mount_options == bounded(&facts.mount_options)),
            compared(
                model.is_empty() == self.model.is_empty(),
                self.model == bounded(model),
            ),
        ]
        .into_iter()
        .min()
        .unwrap_or(IsHere::Perhaps)
    }
}

/// What one run of cuts has shown of one method, up to now.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CutRun {
    /// Where.
    pub place: Place,
    /// Of which method.
    pub method: Method,
    /// Identifies the run.
    pub run: u128,
    /// Cuts that were seen to lose what nothing had forced, at least 1; or the log's loss showed.
    pub cuts: u32,
    /// Commits that were acknowledged before them.
    pub acknowledged: u64,
    /// How many of these were not there afterwards. More than 0 contradicts the method.
    pub lost: u64,
    /// What the run's first phase lost, by a method that is known to be unsafe.
    pub control_lost: u64,
    /// When the latest cut was looked at, in milliseconds since 1970 by the system's clock.
    pub at: u64,
    /// The kernel's release.
    pub kernel: String,
    /// The version of Logforce.
    pub tool: String,
}

impl CutRun {
    /// A run that has seen nothing yet, now.
    pub fn new(place: Place, method: Method, run: u128) -> CutRun {
        CutRun {
            place,
            method,
            run,
            cuts: 0,
            acknowledged: 0,
            lost: 0,
            control_lost: 0,
            at: now(),
            kernel: String::new(),
            tool: String::new(),
        }
    }
}

/// What the directory's file knows, of all places; nothing where there is no such file.
///
/// # Errors
/// If there is one and it cannot be read or understood as a whole: what it has to tell may be a
/// loss. They name the file and say what to do.
pub fn read(dir: &Arc<dyn Directory>) -> io::Result<Vec<CutRun>> {
    held(dir).map(|held| held.runs)
}

fn held(dir: &Arc<dyn Directory>) -> io::Result<Held> {
    let path = dir.path().join(NAME);
    // What is no regular file is refused by the directory.
    let bytes = match dir.open(NAME, OpenFile::READ) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Held::default()),
        opened => opened.and_then(|file| contents(&*file, LONGEST)),
    };
    let bytes = bytes.map_err(|e| {
        let why = format!(
            "cannot read {}, which keeps what power cuts have shown: {e}. Make it a file that can \
             be read, or {OR_ELSE}",
            path.display()
        );
        io::Error::new(e.kind(), why)
    })?;
    stored::decode(&bytes).map_err(|why| {
        let why = format!(
            "{} keeps what power cuts have shown, and {why}. Put back a copy of it, or {OR_ELSE}",
            path.display()
        );
        io::Error::new(io::ErrorKind::InvalidData, why)
    })
}

/// Takes the run into the directory's file, in place of what it had of the same run, and forces it.
/// A loss that is there stays.
///
/// # Errors
/// If the run could show nothing, or not be read back. Of the device; also if what is there cannot be
/// read or understood, which is left alone. The file is then as it was.
pub fn record(dir: &Arc<dyn Directory>, runtime: &dyn Runtime, run: &CutRun) -> io::Result<()> {
    if !stored::can_be_kept(run) {
        let why = format!(
            "a run of cuts by {} that shows nothing (of {} commits by a method that forces, with cuts \
             that lose what is not forced) cannot be recorded",
            run.method, run.acknowledged
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let Held { mut runs, newer } = held(dir)?;
    let same = |r: &CutRun| (r.run, r.method, &r.place) == (run.run, run.method, &run.place);
    if runs.iter().any(|r| same(r) && r.lost > 0) && run.lost == 0 {
        return Ok(());
    }
    runs.retain(|r| !same(r));
    while runs.len() >= MOST {
        let kept = runs.iter().position(|r| r.lost == 0);
        runs.remove(kept.unwrap_or(0));
    }
    runs.push(run.clone());
    let name = format!("{NAME}-{:016x}.tmp", runtime.random());
    let written = put(dir, &name, &stored::encode(&runs, newer))
        .and_then(|()| dir.rename(&name, NAME))
        .and_then(|()| dir.sync());
    if written.is_err() {
        let _ = dir.remove(&name);
    }
    written
}

/// What is known of the methods in the place of these facts, by these runs. Several runs of one
/// method that lost nothing are counted together; one that lost goes before them all. A loss counts
/// also where it is unknown whether it was here: what was kept does not.
pub fn tried(runs: &[CutRun], facts: &Facts) -> Vec<CutResult> {
    let methods = facts.platform.methods().iter();
    methods
        .filter_map(|&method| {
            let mut here: Vec<(&CutRun, IsHere)> = Vec::new();
            for run in runs.iter().filter(|r| r.method == method) {
                let is_here = run.place.is_here(facts);
                let counts = match is_here {
                    IsHere::Yes => true,
                    IsHere::Perhaps => run.lost > 0,
                    IsHere::No => false,
                };
                // The same run may be kept beside the log and in a cache.
                if counts
                    && !here
                        .iter()
                        .any(|(r, _)| r.run == run.run && (r.lost > 0) == (run.lost > 0))
                {
                    here.push((run, is_here));
                }
            }
            let losses = here.iter().filter(|(r, _)| r.lost > 0);
            // What was here for sure is the better evidence.
            let evidence = match losses.max_by_key(|(r, is_here)| (*is_here, r.at)) {
                Some((run, IsHere::Yes)) => loss(run),
                Some((run, _)) => format!(
                    "{}; it was on a {} that may be this one: the system does not say enough of it \
                     now to say that it is another",
                    loss(run),
                    run.place.filesystem
                ),
                None => kept(&here)?,
            };
            let kept = here.iter().all(|(r, _)| r.lost == 0);
            Some(CutResult::new(method, kept, evidence))
        })
        .collect()
}

fn kept(runs: &[(&CutRun, IsHere)]) -> Option<String> {
    let runs = || runs.iter().map(|(run, _)| *run);
    let latest = runs().max_by_key(|r| r.at)?;
    let cuts: u64 = runs().map(|r| u64::from(r.cuts)).sum();
    let acknowledged = runs().fold(0, |n: u64, r| n.saturating_add(r.acknowledged));
    Some(format!(
        "over {cuts} power cut{} all of {acknowledged} acknowledged commits were kept{}",
        if cuts == 1 { "" } else { "s" },
        when_and_where(latest)
    ))
}

fn loss(run: &CutRun) -> String {
    format!(
        "a power cut lost {} of {} acknowledged commits by {}{}. Use another disk or method; if \
         the cause is fixed, remove the file '{NAME}' beside the log and in the shared cache, and \
         run `logforce powercut` again",
        run.lost,
        run.acknowledged,
        run.method,
        when_and_where(run)
    )
}

/// When and under which kernel.
fn when_and_where(run: &CutRun) -> String {
    let mut text = String::new();
    if let Some(date) = date(run.at) {
        text.push_str(&format!(" on {date}"));
    }
    if !run.kernel.is_empty() {
        text.push_str(&format!(", kernel {}", run.kernel));
    }
    text.push_str(&format!(" (run {:032x})", run.run));
    text
}

/// The day, UTC, as in `2026-11-21`; `None` if it is unknown or none that has four digits of years.
fn date(unix_millis: u64) -> Option<String> {
    const LAST: u64 = 253_402_300_799_999;
    if unix_millis == 0 || unix_millis > LAST {
        return None;
    }
    // The civil calendar in eras of 400 years that begin on 1 March.
    let days = unix_millis / 86_400_000 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    Some(format!(
        "{:04}-{month:02}-{day:02}",
        era * 400 + year + next
    ))
}

/// Now, as in [`CutRun::at`].
pub fn now() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or(Duration::ZERO)
        .as_millis()
        .try_into()
        .unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
