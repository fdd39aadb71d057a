//! The child process: opens many logs, commits, and reports its costs.

use super::Part;
use anyhow::{Context, Result};
use logforce::{EnvironmentOptions, Guarantee, Log, Options};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Number of committing threads.
const COMMITTERS: usize = 8;

/// Measurements that a child process reports to its parent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ChildReport {
    /// Name of the part.
    pub part: String,
    /// Number of logs.
    pub logs: usize,
    /// Time to open all logs, seconds.
    pub opening: f64,
    /// Number of threads during the commits, including the committers.
    pub threads: usize,
    /// Number of file descriptors during the commits.
    pub descriptors: usize,
    /// Number of file descriptors when idle.
    pub idle_descriptors: usize,
    /// Resident memory after the last commit, bytes.
    pub memory: u64,
    /// Processor time during the commits, as a fraction of one processor.
    pub processor: f64,
    /// Number of commits.
    pub commits: u64,
    /// Device writes per commit, counted by the logs.
    pub writes: f64,
    /// Barriers and directory syncs per commit.
    pub barriers: f64,
    /// Bytes in the directories of all logs.
    pub bytes: u64,
}

fn entries(dir: &str) -> usize {
    std::fs::read_dir(dir).map_or(0, Iterator::count)
}

/// Returns the user and system time of this process, seconds.
fn processor_time() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .context("a status")?
        .split_whitespace()
        .collect();
    let ticks = |n: usize| -> Result<f64> { Ok(fields.get(n).context("a time")?.parse()?) };
    // Linux reports these times in hundredths of a second.
    Ok((ticks(11)? + ticks(12)?) / 100.0)
}

fn resident() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    let kib: u64 = line
        .context("resident memory")?
        .trim()
        .trim_end_matches(" kB")
        .parse()?;
    Ok(kib << 10)
}

fn size(dir: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(dir)? {
        sum += entry?.metadata()?.len();
    }
    Ok(sum)
}

/// Runs the part, reports it in one line, and waits to be killed.
pub(super) fn run(part: Part, dir: &Path, logs: usize, seconds: Duration) -> Result<()> {
    let name = match part {
        Part::Alone | Part::ReopenAlone => "alone",
        Part::Shared | Part::ReopenShared => "shared",
    };
    let paths: Vec<PathBuf> = (0..logs).map(|n| dir.join(n.to_string())).collect();
    let mut options = Options::new().require(Guarantee::ProcessCrash);
    if name == "shared" {
        options = options.environment(&logforce::environment(&EnvironmentOptions::new())?);
    } else {
        // By default each log reserves 64 MiB at once: this many logs would fill the disk.
        options = options.segment_size(1 << 20);
    }
    let began = Instant::now();
    let opened = options.create(true).open_many(&paths);
    let opened: Vec<Log> = opened.into_iter().collect::<logforce::Result<_>>()?;
    let opening = began.elapsed().as_secs_f64();
    let reopens = matches!(part, Part::ReopenAlone | Part::ReopenShared);
    let seconds = if reopens { Duration::ZERO } else { seconds };

    let before: Vec<_> = opened.iter().map(|log| log.stats().counters).collect();
    let (processor, began) = (processor_time()?, Instant::now());
    let rounds = seconds.as_secs();
    let commit = |first: usize| -> logforce::Result<()> {
        for round in 0..rounds {
            let mine: Vec<usize> = (first..opened.len()).step_by(COMMITTERS).collect();
            for (n, &log) in mine.iter().enumerate() {
                // Spread evenly over the second.
                let at = round as f64 + n as f64 / mine.len() as f64;
                let due = began + Duration::from_secs_f64(at);
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                opened[log].commit([b'x'; 128])?;
            }
        }
        Ok(())
    };
    let (threads, descriptors) = std::thread::scope(|scope| {
        let committers: Vec<_> = (0..COMMITTERS)
            .map(|first| scope.spawn(move || commit(first)))
            .collect();
        std::thread::sleep(seconds / 2);
        let seen = (entries("/proc/self/task"), entries("/proc/self/fd"));
        for committer in committers {
            committer
                .join()
                .map_err(|_| anyhow::anyhow!("a committer panicked"))??;
        }
        anyhow::Ok(seen)
    })?;
    let took = began.elapsed().as_secs_f64();
    let processor = (processor_time()? - processor) / took;
    let memory = resident()?;
    let mut counted = (0, 0);
    for (log, before) in opened.iter().zip(&before) {
        let since = log.stats().counters.difference(before);
        counted.0 += since.device_writes;
        counted.1 += since.device_barriers + since.directory_syncs;
    }
    // Idle logs in an environment close their files after a second.
    std::thread::sleep(Duration::from_millis(if reopens { 0 } else { 3_000 }));
    let commits = rounds * logs as u64;
    let mut bytes = 0;
    for path in &paths {
        bytes += size(path)?;
    }
    let seen = ChildReport {
        part: part.name().to_owned(),
        logs,
        opening,
        threads,
        descriptors,
        idle_descriptors: entries("/proc/self/fd"),
        memory,
        processor,
        commits,
        writes: counted.0 as f64 / commits.max(1) as f64,
        barriers: counted.1 as f64 / commits.max(1) as f64,
        bytes,
    };
    let mut output = std::io::stdout();
    serde_json::to_writer(&mut output, &seen)?;
    writeln!(output)?;
    output.flush()?;
    // Waits until the parent kills this process, so that no log is closed.
    loop {
        std::thread::sleep(Duration::from_secs(60));
    }
}
