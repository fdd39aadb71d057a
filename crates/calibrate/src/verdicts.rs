//! Results of power cuts, in a file of the log's directory, or of a directory that programs share.
//!
//! The file is separate from the calibrations: those may be dropped and measured again, and a program without
//! support for verdicts rewrites their file. The file is not trusted: an entry is accepted only if this
//! module could have written it. An entry can make a log refuse a method. It never makes a log trust a method
//! more than the system's facts allow.

mod stored;

use crate::evidence::{contents, put};
use logforce_device::{CutResult, Directory, Facts, Method, OpenFile, Platform, Runtime};
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use stored::Held;

/// Name of the file.
pub const NAME: &str = "verdicts";

/// Maximum number of runs in a file. A further one replaces the oldest run that lost nothing.
const MOST: usize = 64;

/// Last remedy for a file that cannot be read.
const OR_ELSE: &str =
    "move it away: its results are then lost until you run `logforce powercut` again";

/// Maximum length of a file in bytes; an entry takes about 2 KiB. A longer file is refused.
const LONGEST: u64 = 512 << 10;

/// Conditions under which the results of power cuts are valid: the filesystem, its device and its mount
/// options.
///
/// Three properties do not belong to them. The device's kernel name changes with the order in which devices
/// are found. The kernel does not matter to a device that drops flushes; it is printed with the evidence. A
/// flush covers all writes, so the write unit does not matter either.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Place {
    /// Identity of the filesystem: [`Facts::volume`].
    pub volume: String,
    /// Name of the filesystem.
    pub filesystem: String,
    /// Mount options.
    pub mount_options: String,
    /// Model of the device.
    pub model: String,
}

impl Place {
    /// Returns the place of these facts. Returns `None` if the system gives the filesystem no lasting
    /// identity ([`Facts::lasting_volume`]).
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

/// Result of comparing a recorded place with the present one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum IsHere {
    No,
    /// Some properties cannot be compared, and none differs.
    Perhaps,
    Yes,
}

impl Place {
    /// Compares the place with that of these facts. A property that the system does not report now, did not
    /// report then, or reports in another form, cannot be compared.
    fn is_here(&self, facts: &Facts) -> IsHere {
        let bounded = crate::key::bounded;
        let compared = |known: bool, same: bool| match (known, same) {
            (true, true) => IsHere::Yes,
            (true, false) => IsHere::No,
            (false, _) => IsHere::Perhaps,
        };
        let is_seen = facts.platform != Platform::Linux || !facts.mount_options.is_empty();
        // A number of `statfs` and a UUID cannot be compared, although both may identify the same filesystem.
        let is_number = |volume: &str| volume.starts_with("fsid:");
        let volume = facts.lasting_volume().unwrap_or_default();
        let model = facts.device.as_ref().map_or("", |d| &d.model);
        [
            compared(
                !volume.is_empty() && is_number(volume) == is_number(&self.volume),
                self.volume == bounded(volume),
            ),
            // Without mount information the name is a guess: ext3 appears as `ext4`.
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

/// Results of one run of power cuts for one method, up to now.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CutRun {
    /// Place of the run.
    pub place: Place,
    /// Tested method.
    pub method: Method,
    /// Identifier of the run.
    pub run: u128,
    /// Number of effective cuts: each lost unforced data or commits of the log. 0 only if `lost` is above 0.
    pub cuts: u32,
    /// Number of commits that were acknowledged before the cuts.
    pub acknowledged: u64,
    /// Number of acknowledged commits that were missing after a cut. More than 0 contradicts the method.
    pub lost: u64,
    /// Number of commits that the run's first phase lost, which uses a method that is known to be unsafe.
    pub control_lost: u64,
    /// Time at which the latest cut was checked, in milliseconds since 1970 by the system's clock.
    pub at: u64,
    /// Release of the kernel.
    pub kernel: String,
    /// Version of Logforce.
    pub tool: String,
}

impl CutRun {
    /// Returns a run without results that begins now.
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

/// Reads all runs of the directory's file, for any place. Returns none if there is no such file.
///
/// # Errors
/// If the file cannot be read and decoded as a whole, because it may record a loss. The error names the file
/// and the remedy.
pub fn read(dir: &Arc<dyn Directory>) -> io::Result<Vec<CutRun>> {
    held(dir).map(|held| held.runs)
}

fn held(dir: &Arc<dyn Directory>) -> io::Result<Held> {
    let path = dir.path().join(NAME);
    // The directory refuses to open anything but a regular file.
    let bytes = match dir.open(NAME, OpenFile::READ) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Held::default()),
        opened => opened.and_then(|file| contents(&*file, LONGEST)),
    };
    let bytes = bytes.map_err(|e| {
        let why = format!(
            "cannot read {}, the file with the results of power cuts: {e}. Make it a readable \
             file, or {OR_ELSE}",
            path.display()
        );
        io::Error::new(e.kind(), why)
    })?;
    stored::decode(&bytes).map_err(|why| {
        let why = format!(
            "cannot use {}, the file with the results of power cuts: {why}. Restore a copy of it, or {OR_ELSE}",
            path.display()
        );
        io::Error::new(io::ErrorKind::InvalidData, why)
    })
}

/// Writes the run into the directory's file, replaces an earlier entry of the same run, and forces the file.
/// A recorded loss stays.
///
/// # Errors
/// If the run proves nothing, or could not be read back. Errors of the device. Also if the existing file
/// cannot be read and decoded. The file then stays unchanged.
pub fn record(dir: &Arc<dyn Directory>, runtime: &dyn Runtime, run: &CutRun) -> io::Result<()> {
    if !stored::can_be_kept(run) {
        let why = format!(
            "cannot record the run of power cuts by {} with {} acknowledged commits: it proves nothing. A \
             run needs commits by a method that forces, and power cuts that lose unforced data",
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

/// Summarizes the runs for the methods in the place of these facts. Adds up the runs of a method that lost
/// nothing. A run with a loss overrides them all. A loss counts even if it is uncertain that it happened
/// here; a run without a loss does not.
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
            // A loss that certainly happened here is the better evidence.
            let evidence = match losses.max_by_key(|(r, is_here)| (*is_here, r.at)) {
                Some((run, IsHere::Yes)) => loss(run),
                Some((run, _)) => format!(
                    "{}; it was on a {} that may be this one: the system does not report enough to \
                     tell them apart",
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

/// Describes the date, the kernel and the run.
fn when_and_where(run: &CutRun) -> String {
    let mut text = String::new();
    if let Some(date) = logforce_device::date::day(run.at) {
        text.push_str(&format!(" on {date}"));
    }
    if !run.kernel.is_empty() {
        text.push_str(&format!(", kernel {}", run.kernel));
    }
    text.push_str(&format!(" (run {:032x})", run.run));
    text
}

/// Returns the present time in the unit of [`CutRun::at`].
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
