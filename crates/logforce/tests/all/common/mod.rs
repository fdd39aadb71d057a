//! Functions shared by the tests on the real operating system.
#![allow(dead_code)]

pub mod examples;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
#[allow(unused_imports)]
pub use linux::*;

use logforce::replica::Replication;
use logforce::{Error, ErrorKind, Guarantee, Log, Lsn, Method, Options, Policy};
use logforce_testkit::process::{Start, same_test};
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Sender, channel};
use tempfile::TempDir;

pub const SEGMENT: u64 = 256 << 10;

/// Options with small segments and a guarantee that any `/tmp` offers (it may be in memory).
pub fn options() -> Options {
    sized(SEGMENT).require(Guarantee::ProcessCrash)
}

/// Options with small segments, batches and buffer, and with the default guarantee and method.
pub fn sized(segment_size: u64) -> Options {
    Options::new()
        .calibrate(false)
        .segment_size(segment_size)
        .max_batch_size(64 << 10)
        .buffer_size(256 << 10)
}

/// Way in which a thread makes a record durable itself. All ways cost the same.
#[derive(Debug, Clone, Copy)]
pub enum Way {
    /// [`Log::commit`].
    Commit,
    /// [`Log::append`], then [`Log::force`].
    Force,
    /// [`Log::submit`], then the handle's `wait`.
    Wait,
}

impl Way {
    pub const ALL: [Way; 3] = [Way::Commit, Way::Force, Way::Wait];

    pub fn name(self) -> &'static str {
        match self {
            Way::Commit => "commit",
            Way::Force => "force",
            Way::Wait => "wait",
        }
    }

    pub fn named(name: &str) -> Way {
        Way::ALL.into_iter().find(|w| w.name() == name).unwrap()
    }

    /// Returns a guard that must live while records are made durable. For [`Way::Wait`] it occupies the
    /// writer thread, which would otherwise lead some of the jobs that handles wait for.
    pub fn begin(self, log: &Log) -> Option<Sender<()>> {
        matches!(self, Way::Wait).then(|| occupy_writer(log))
    }

    pub fn make_durable(self, log: &Log, record: &[u8]) {
        match self {
            Way::Commit => {
                log.commit(record).unwrap();
            }
            Way::Force => {
                log.force(log.append(record).unwrap().end).unwrap();
            }
            Way::Wait => {
                log.submit(record, Policy::Force).unwrap().wait().unwrap();
            }
        }
    }
}

/// Commits a record by [`Policy::Replicated`], and is the replica that confirms it.
pub fn commit_replicated(log: &Log, replica: &mut Replication, record: &[u8]) {
    let handle = log.submit(record, Policy::Replicated).unwrap();
    log.force(handle.end()).unwrap();
    let chunk = replica.read(1 << 20).unwrap().unwrap();
    replica.confirm(chunk.to).unwrap();
    handle.wait().unwrap();
}

/// Keeps the log's writer thread in a callback until the sender is dropped.
pub fn occupy_writer(log: &Log) -> Sender<()> {
    let (began, begins) = channel();
    let (release, released) = channel::<()>();
    log.submit_then(b"occupied", Policy::Force, move |_| {
        began.send(()).unwrap();
        let _ = released.recv();
    })
    .unwrap();
    begins.recv().unwrap();
    release
}

/// Creates a private directory for the test. The first call limits the process to 64 open files for each test
/// that runs at the same time: a log of any length needs no more.
pub fn temp() -> TempDir {
    #[cfg(unix)]
    {
        static LIMITED: std::sync::Once = std::sync::Once::new();
        LIMITED.call_once(|| limit_descriptors(64 * tests_at_once()));
    }
    TempDir::new().unwrap()
}

/// Raises the limit of open files to the system's maximum, for records that span more segments than the usual
/// limit of the tests allows.
pub fn unlimited_descriptors() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, getrlimit, setrlimit};
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = limit.maximum;
        setrlimit(Resource::Nofile, limit).unwrap();
    }
}

#[cfg(unix)]
pub fn limit_descriptors(to: u64) {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(limit.current.map_or(to, |now| now.min(to)));
    setrlimit(Resource::Nofile, limit).unwrap();
}

#[cfg(unix)]
fn tests_at_once() -> u64 {
    let value = std::env::var("RUST_TEST_THREADS").ok();
    value
        .and_then(|n| n.parse().ok())
        .or_else(|| {
            std::thread::available_parallelism()
                .ok()
                .map(|n| n.get() as u64)
        })
        .unwrap_or(1)
}

/// Returns record number `n`. Its bytes identify it and show that it is complete.
pub fn record(n: u64, len: usize) -> Vec<u8> {
    let mut data = n.to_le_bytes().to_vec();
    data.extend((8..len.max(8)).map(|i| (n as usize * 31 + i * 7) as u8));
    data
}

/// Reads the records from `from` on.
pub fn read(log: &Log, from: Lsn) -> Vec<Vec<u8>> {
    log.read_from(from)
        .unwrap()
        .map(|record| record.unwrap().data)
        .collect()
}

/// Reads all records.
pub fn read_all(log: &Log) -> Vec<Vec<u8>> {
    read(log, log.front_lsn())
}

/// Commits records until one is refused. Returns the number of accepted ones, and the error.
pub fn fill_up(log: &Log, first: u64, len: usize) -> (u64, Error) {
    for n in first.. {
        match log.commit(&record(n, len)) {
            Ok(_) => {}
            Err(e) => return (n - first, e),
        }
    }
    unreachable!("the disk never gets full")
}

/// Checks that the log contains exactly the records `from..to` of that length.
#[track_caller]
pub fn assert_holds(log: &Log, from: u64, to: u64, len: usize) {
    let found = read_all(log);
    assert_eq!(found.len() as u64, to - from, "records");
    for (n, data) in (from..to).zip(found) {
        assert!(data == record(n, len), "record {n}");
    }
}

/// Checks the kind of the error, and that its message contains all the words.
#[track_caller]
pub fn assert_error<T>(result: logforce::Result<T>, kind: ErrorKind, words: &[&str]) -> Error {
    let Err(e) = result else {
        panic!("this should have failed: {kind:?} {words:?}");
    };
    let message = e.to_string();
    println!("{kind:?}: {message}");
    assert_eq!(e.kind(), kind, "{message}");
    for word in words {
        assert!(message.contains(word), "'{word}' is not in: {message}");
    }
    e
}

/// Returns the methods that are available in `dir`.
pub fn methods(dir: &Path) -> Vec<Method> {
    let direct = logforce::disk::facts(dir).unwrap().direct.is_some();
    if !direct {
        logforce_testkit::skip!("no direct I/O in {}", dir.display());
    }
    Method::here()
        .iter()
        .copied()
        .filter(|m| direct || !m.plan().direct)
        .collect()
}

/// Returns a command that runs only the test `name` of this program, with the variable set to `value`. A test
/// uses it as a second process.
#[track_caller]
pub fn again(name: &str, variable: &str, value: impl AsRef<OsStr>) -> Command {
    let program = std::env::current_exe().unwrap();
    // Another user may have no access to the program's path.
    let program = match program.metadata() {
        Ok(_) => program,
        Err(_) => PathBuf::from("/proc/self/exe"),
    };
    let mut command = Command::new(program);
    same_test(&mut command, name, variable, value);
    command
}

/// Returns the value of that variable in the second process.
pub fn in_second_process(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from)
}

#[track_caller]
pub fn assert_passed(output: &Output) {
    let all = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    print!("{all}");
    assert!(output.status.success(), "the second process failed");
    assert!(all.contains("1 passed"), "the second process ran no test");
}

/// Prints a line past the test harness, so that the reader of this process's output gets it.
pub fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}

/// A child process. Dropping this kills it and waits for its end.
pub struct Killed(pub Child);

impl Killed {
    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Lists the segment files of a log, ordered by name.
pub fn segments(dir: &Path) -> Vec<PathBuf> {
    with_suffix(dir, ".seg")
}

pub fn with_suffix(dir: &Path, suffix: &str) -> Vec<PathBuf> {
    let mut found: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.to_str().is_some_and(|p| p.ends_with(suffix)))
        .collect();
    found.sort();
    found
}

/// Changes bytes of a file in place.
pub fn patch(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

const DIR: &str = "LOGFORCE_TEST_KILLED";
const METHOD: &str = "LOGFORCE_TEST_METHOD";
const LEN: usize = 5000;

/// Commits until it is killed, in the second process of [`survives_kills`]. Returns at once in the first
/// process.
pub fn commit_until_killed() {
    let Some(dir) = in_second_process(DIR) else {
        return;
    };
    let method = std::env::var(METHOD).unwrap().parse().unwrap();
    let log = logforce::open_existing(dir, options().method(method)).unwrap();
    let first = read_all(&log).len() as u64;
    tell("");
    for n in first.. {
        log.commit(&record(n, LEN)).unwrap();
        tell(&n.to_string());
    }
}

/// Repeatedly kills a process that commits to a new log in `dir`, and checks that the log contains every
/// commit that the process has reported. The test `name` of this program must begin with
/// [`commit_until_killed`].
#[track_caller]
pub fn survives_kills(name: &str, dir: &Path, method: Method) {
    use std::io::{BufRead, BufReader};
    let options = options().method(method);
    logforce::create_new(dir, options.clone()).unwrap();
    let mut acknowledged = 0;
    for round in 0..3 {
        let mut child = again(name, DIR, dir);
        let child = child.env(METHOD, method.name()).stdout(Stdio::piped());
        let mut child = child.start().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut child = Killed(child);
        let mut seen = 0;
        for line in out.lines().map_while(Result::ok) {
            if let Ok(n) = line.parse::<u64>() {
                acknowledged = n + 1;
                seen += 1;
            }
            if seen == 40 + 37 * round {
                // The process runs until the signal reaches it. Commits that it reports until then count,
                // too.
                child.0.kill().unwrap();
            }
        }
        child.kill();
        assert!(seen > 0, "{method}");
        let log = logforce::open_existing(dir, options.clone()).unwrap();
        assert!(!log.recovered().clean);
        let found = read_all(&log).len() as u64;
        println!("{method}: {acknowledged} acknowledged, {found} found");
        assert!(
            found >= acknowledged && found <= acknowledged + 1,
            "{method}"
        );
        assert_holds(&log, 0, found, LEN);
        log.close().unwrap();
    }
}
