//! A witness and a writer on this machine, and simulated power cuts: the test kills the writer and
//! restores an earlier state of the file that "was not forced".

use crate::common::{place, text};
use logforce::{Guarantee, Method, disk::FileState};
use logforce_testkit::process::Start;
use logforce_witness::client::{Client, Role};
use logforce_witness::{Round, RunId};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Method of the runs: this system's write followed by a flush.
pub const METHOD: Method = if cfg!(windows) {
    Method::Flush
} else if cfg!(target_os = "macos") {
    Method::FullFsync
} else {
    Method::Fdatasync
};

/// A process that ends with the test, even after a panic.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Kills the process, which cannot do anything more.
    pub fn kill(&mut self) {
        self.0.kill().unwrap();
        self.ended();
    }

    /// Interrupts the process as Ctrl-C does.
    #[cfg(unix)]
    pub fn interrupt(&self) {
        use rustix::process::{Pid, Signal, kill_process};
        kill_process(Pid::from_child(&self.0), Signal::INT).unwrap();
    }

    /// Waits until the process ends, and returns its status.
    pub fn ended(&mut self) -> i32 {
        until("the command ends", || self.0.try_wait().unwrap())
            .code()
            .unwrap_or(-1)
    }
}

/// Waits for something that must happen.
pub fn until<T>(what: &str, mut happened: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(value) = happened() {
            return value;
        }
        assert!(began.elapsed() < Duration::from_secs(120), "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub struct Witness {
    pub process: Running,
    pub address: String,
    _stdout: BufReader<ChildStdout>,
}

pub fn witness(store: &Path) -> Witness {
    let mut child = Command::new(env!("CARGO_BIN_EXE_logforce"))
        .args(["powercut", "witness", "--listen", "127.0.0.1:0", "--store"])
        .arg(store)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .start()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let process = Running(child);
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let address = line
        .strip_prefix("listening at ")
        .and_then(|l| l.split(';').next());
    let address = address
        .unwrap_or_else(|| panic!("it said: {line}"))
        .to_owned();
    Witness {
        process,
        address,
        _stdout: stdout,
    }
}

pub struct Rig {
    pub home: TempDir,
    pub witness: Witness,
}

/// Creates the test bed. If by its facts no log survives a loss of power here, prints this and returns
/// `None`.
pub fn testbed() -> Option<Rig> {
    let home = place();
    let facts = logforce::disk::facts(home.path()).unwrap();
    let assessed = facts.assess(METHOD, FileState::Zeroed).unwrap();
    if assessed.guarantee < Guarantee::PowerLoss || facts.lasting_volume().is_none() {
        logforce_testkit::skip!("{assessed:?}, volume '{}'", facts.volume);
        return None;
    }
    let witness = witness(&home.path().join("store"));
    Some(Rig { home, witness })
}

impl Rig {
    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Returns the directory of the run.
    pub fn dir(&self) -> PathBuf {
        self.path("run")
    }

    pub fn run_id(&self) -> RunId {
        let file = self.dir().join("powercut.json");
        let json: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        json["run"].as_str().unwrap().parse().unwrap()
    }

    pub fn command(&self, part: &str, dir: &Path, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_logforce"));
        command
            .args([
                "powercut",
                part,
                "--witness",
                &self.witness.address,
                "--cache",
            ])
            .arg(self.path("cache"))
            .arg(dir)
            .args(more)
            .stdin(Stdio::null());
        command
    }

    pub fn check(&self, more: &[&str]) -> Output {
        self.command("check", &self.dir(), more).to_end().unwrap()
    }

    pub fn write(&self, more: &[&str]) -> Running {
        let small = [
            "--method",
            METHOD.name(),
            "--size",
            "4MiB",
            "--committers",
            "2",
        ];
        let mut command = self.command("write", &self.dir(), &[&small, more].concat());
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped());
        Running(child.start().unwrap())
    }

    /// Runs a writer that must be refused. Returns its output.
    pub fn refused_to_write(&self, more: &[&str]) -> String {
        let out = self.command("write", &self.dir(), more).to_end().unwrap();
        assert_eq!(out.status.code(), Some(4), "{out:?}");
        text(&out.stderr)
    }

    /// Returns the witness's latest round.
    pub fn round(&self) -> Option<Round> {
        let run = self.run_id();
        let (_, state) = Client::connect(&self.witness.address, Role::Look, run).unwrap();
        state?.rounds.pop()
    }

    /// Waits until round `number` has this number of acknowledged commits and unforced writes.
    pub fn reaches(&self, number: u32, acknowledged: u64, unforced: u64) -> Round {
        let file = self.dir().join("powercut.json");
        until("the run begins", || file.exists().then_some(()));
        until("enough is acknowledged", || {
            self.round().filter(|r| {
                r.number == number && r.acknowledged >= acknowledged && r.unforced >= unforced
            })
        })
    }

    /// Simulates a power cut in a round: kills the writer and drops the latest writes to the unforced file
    /// `name` (`control` in the control phase, otherwise `canary`).
    pub fn cut(&self, number: u32, name: &str) {
        let commits = if name == "control" { 0 } else { 300 };
        let mut writer = self.write(&[]);
        let seen = self.reaches(number, commits, 20);
        let (file, before) = (self.dir().join(name), self.path("before"));
        fs::copy(&file, &before).unwrap();
        // The copy does not contain what is acknowledged from now on.
        let copied = self.round().unwrap().unforced;
        self.reaches(number, seen.acknowledged + commits, copied + 20);
        writer.kill();
        fs::copy(&before, &file).unwrap();
    }

    /// Runs the control phase, with a loss.
    pub fn ready(&self) {
        self.cut(1, "control");
        let out = self.check(&[]);
        assert_eq!(out.status.code(), Some(0), "{out:?}");
        let said = text(&out.stdout);
        assert!(said.contains("READY: The control phase lost"), "{said}");
    }

    /// Returns the report of a check that ended with `status`.
    pub fn checked(&self, status: i32) -> Value {
        let out = self.check(&["--json", "-"]);
        assert_eq!(out.status.code(), Some(status), "{out:?}");
        serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {out:?}"))
    }
}

/// Empties the files of the run's log, except their beginning.
pub fn wipe_log(dir: &Path) {
    for entry in fs::read_dir(dir.join("log")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|x| x == "seg") {
            let len = fs::metadata(&path).unwrap().len();
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.set_len(4096).unwrap();
            file.set_len(len).unwrap();
        }
    }
}
