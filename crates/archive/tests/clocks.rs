//! Clocks that jump: restores to a time and prunings by age do what they say, whatever the writer's clock says.

use logforce::{Guarantee, Log, Lsn, Options, Policy};
use logforce_archive::{Archive, ArchiveOptions, AttachOptions, RestoreOptions, RestoreTo};
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds since 1970 on the writer's clock.
static SECONDS: AtomicI64 = AtomicI64::new(0);

fn clock() -> SystemTime {
    let seconds = SECONDS.load(Relaxed);
    let since = Duration::from_secs(seconds.unsigned_abs());
    if seconds < 0 {
        UNIX_EPOCH - since
    } else {
        UNIX_EPOCH + since
    }
}

const HOUR: i64 = 3600;
const YEAR: i64 = 365 * 24 * HOUR;
/// Clock of the writer when it begins.
const START: i64 = 56 * YEAR;

/// Number of commits.
const COMMITS: usize = 140;
/// Jumps of the clock, by the number of the commit before which they happen.
const JUMPS: [(usize, i64); 7] = [
    (20, -3 * HOUR),
    (45, 3 * HOUR),
    (60, 20 * YEAR),
    (75, -20 * YEAR),
    (90, -START),
    (100, -100 * YEAR),
    (103, START + 100 * YEAR + HOUR),
];

/// Returns the clock at each commit: it goes on by 10 s a commit, and jumps.
fn times() -> Vec<i64> {
    let mut now = START;
    let mut next = |n| {
        let jump = JUMPS.iter().find(|(at, _)| *at == n);
        now += 10 + jump.map_or(0, |(_, by)| *by);
        now
    };
    (0..COMMITS).map(&mut next).collect()
}

/// Commit: its position, the clock, and the log's front then.
struct Commit {
    end: Lsn,
    seconds: u64,
    front: Lsn,
}

fn options() -> Options {
    Options::new()
        .require(Guarantee::ProcessCrash)
        .calibrate(false)
        .segment_size(256 << 10)
}

/// Makes a log whose commits are one chunk each, and archives it in segments of that size.
fn fill(home: &Path, segment_size: u64) -> (Archive, Vec<Commit>) {
    let bucket = home.join("bucket");
    std::fs::create_dir(&bucket).unwrap();
    let options_ = ArchiveOptions {
        clock,
        ..ArchiveOptions::default()
    };
    let archive = Archive::open(bucket.to_str().unwrap(), options_).unwrap();
    let log = logforce::create_new(home.join("log"), options()).unwrap();
    let attach = AttachOptions::new().synchronous();
    let attached = archive
        .attach(&log, attach.segment_size(segment_size))
        .unwrap();
    let mut commits: Vec<Commit> = Vec::new();
    for seconds in times() {
        SECONDS.store(seconds, Relaxed);
        let at = log.commit_with(vec![1; 60_000], Policy::Replicated);
        if let Some(kept) = commits.len().checked_sub(12) {
            log.truncate_front(commits[kept].end).unwrap();
        }
        commits.push(Commit {
            end: at.unwrap().end,
            seconds: seconds.max(0) as u64,
            front: log.front_lsn(),
        });
    }
    log.close().unwrap();
    attached.close().unwrap();
    (archive, commits)
}

/// Returns the last commit before the first one that is later than `seconds`.
fn last_before(commits: &[Commit], seconds: u64) -> Option<&Commit> {
    let later = commits.iter().position(|c| c.seconds > seconds);
    commits[..later.unwrap_or(commits.len())].last()
}

/// Restores to a time, and compares the end and the front with the commit that has to be the last one.
fn check(archive: &Archive, commits: &[Commit], seconds: u64) -> Result<(), String> {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let to_time = RestoreOptions::new()
        .require(Guarantee::ProcessCrash)
        .to(RestoreTo::Time(seconds * 1_000_000_000));
    let restored = archive.restore(&home.path().join("copy"), &to_time, &mut |_| {});
    let (last, report) = match (last_before(commits, seconds), restored) {
        (Some(last), Ok(report)) => (last, report),
        (None, Err(error)) if error.to_string().contains("nothing that is older") => return Ok(()),
        (_, restored) => return Err(format!("to {seconds}: {restored:?}")),
    };
    let log: Log = logforce::open_existing(home.path().join("copy"), options()).unwrap();
    let ends = log.read_from(log.front_lsn()).unwrap().last();
    let end = ends.unwrap().map(|record| record.end).unwrap();
    let front = log.front_lsn();
    match end == last.end && front <= last.front {
        true => Ok(()),
        false => Err(format!(
            "to {seconds}: [{front}, {end}) instead of [{}, {}), {report:?}",
            last.front, last.end
        )),
    }
}

/// Returns times on both sides of each jump.
fn wanted(commits: &[Commit]) -> Vec<u64> {
    let sides = JUMPS.iter().flat_map(|(at, _)| [at - 1, *at, at + 5]);
    let mut all: Vec<u64> = sides.map(|n| commits[n].seconds).collect();
    all.extend([1, (START + 50 * YEAR) as u64]);
    all.sort_unstable();
    all.dedup();
    all
}

#[test]
fn restores_and_prunings_follow_a_clock_that_jumps() {
    for segment_size in [128 << 20, 1 << 20] {
        let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let (archive, commits) = fill(home.path(), segment_size);
        let contents = archive.list().unwrap();
        assert_eq!(
            contents.segments >= 5,
            segment_size == 1 << 20,
            "{contents:?}"
        );
        let wanted = wanted(&commits);
        for seconds in &wanted {
            check(&archive, &commits, *seconds).unwrap();
        }
        let mut moved = 0;
        let mut start = contents.start;
        for (n, seconds) in wanted.iter().enumerate() {
            let pruned = archive.prune(seconds * 1_000_000_000, false).unwrap().start;
            if pruned > start {
                (moved, start) = (moved + 1, pruned);
                for later in &wanted[n..] {
                    check(&archive, &commits, *later).unwrap();
                }
            }
        }
        assert_eq!(moved > 0, segment_size == 1 << 20, "pruned to {start}");
        let verified = archive.verify(None, &mut |_| {}).unwrap();
        assert_eq!(verified.damage, [""; 0]);
    }
}
