//! Processes of this program that a fault meets.

use crate::check::Session;
use crate::ledger::{Entry, Kind, SubjectLedger};
use crate::subject::seam::Fault;
use crate::subject::{Job, Space};
use anyhow::{Context, Result};
use clap::ValueEnum;
use logforce::Method;
use logforce_crashtest::testbed::Image;
use logforce_testkit::Rng;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Longest time for anything that has to come by itself. It ends a hang.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(40);

/// Task of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Works the log: [`Workload`].
    Work,
    /// Works a page file: [`Job`](crate::pages::Job).
    PageWork,
    /// Works a durable file: [`Job`](crate::files::Job).
    FileWork,
    /// Works SQLite databases: [`Job`](crate::sqlite::Job).
    SqliteWork,
    /// Runs a small program: [`RawJob`](crate::subject::raw::RawJob).
    Raw,
    /// Reads a log: [`readers::Reading`](crate::process::readers::Reading).
    Read,
    /// Opens a log again and again: [`contention::Contending`](crate::process::contention::Contending).
    Contention,
    /// Works while system calls fail: [`inject`](crate::process::inject).
    Inject,
}

impl Role {
    /// Returns the arguments of a process with this role.
    ///
    /// # Errors
    /// If the job cannot be written as JSON.
    pub fn arguments(self, job: &impl Serialize) -> Result<[String; 3]> {
        let name = self.to_possible_value().context("a hidden role")?;
        let name = name.get_name().to_owned();
        Ok(["role".to_owned(), name, serde_json::to_string(job)?])
    }
}

/// User of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// User that may use the blocks that a filesystem reserves.
    Root,
    /// User that may not.
    Nobody,
}

/// Ids of the unprivileged user and group.
pub const NOBODY: u32 = 65534;

impl User {
    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            User::Root => "root",
            User::Nobody => "nobody",
        }
    }
}

/// Job of a subject, and its use of space.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// The job.
    pub job: Job,
    /// Use of space.
    pub space: Space,
}

impl Workload {
    /// Returns a workload without an end that keeps a few segments.
    pub fn new(dir: &Path, method: Method, session: u64, seed: u64) -> Workload {
        Workload {
            job: Job {
                dir: dir.to_owned(),
                ledger: ledger_path(),
                method: method.name().to_owned(),
                session,
                seed,
                demanding: false,
                fault: Fault::None,
                commits: 0,
                repairs: false,
            },
            space: Space::Little,
        }
    }
}

/// Returns the path by which a process finds the ledger that it was started with: its standard input, because an
/// unprivileged user cannot open files of this process.
pub fn ledger_path() -> PathBuf {
    PathBuf::from("/proc/self/fd/0")
}

/// Process that is killed when dropped.
#[derive(Debug)]
pub struct Started {
    child: Child,
    /// Ledger with what the process was promised.
    pub ledger: SubjectLedger,
    errors: Image,
    status: Option<ExitStatus>,
    killed: bool,
}

impl Started {
    /// Starts a process with an empty ledger, which it finds at [`ledger_path`].
    ///
    /// # Errors
    /// If it does not start.
    pub fn new<J: Serialize>(role: Role, job: &J, user: User) -> Result<Started> {
        let ledger = SubjectLedger::new()?;
        Self::with(ledger, role, job, user)
    }

    /// Starts a process with a ledger.
    ///
    /// # Errors
    /// If it does not start.
    pub fn with<J: Serialize>(
        ledger: SubjectLedger,
        role: Role,
        job: &J,
        user: User,
    ) -> Result<Started> {
        let errors = Image::new(0)?;
        // Not by its path, which another user may not be able to walk.
        let mut command = Command::new("/proc/self/exe");
        command
            .args(role.arguments(job)?)
            .current_dir("/")
            .stdin(Stdio::from(ledger.file().try_clone()?))
            .stdout(Stdio::null())
            .stderr(Stdio::from(errors.file().try_clone()?));
        if user == User::Nobody {
            command.uid(NOBODY).gid(NOBODY);
        }
        let child = command
            .spawn()
            .with_context(|| format!("the process {role:?} of {}", user.name()))?;
        Ok(Started {
            child,
            ledger,
            errors,
            status: None,
            killed: false,
        })
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns true if it has ended.
    ///
    /// # Errors
    /// System errors.
    pub fn has_ended(&mut self) -> Result<bool> {
        if self.status.is_none() {
            self.status = self.child.try_wait()?;
        }
        Ok(self.status.is_some())
    }

    /// Kills it.
    ///
    /// # Errors
    /// System errors.
    pub fn kill(&mut self) -> Result<()> {
        if !self.has_ended()? {
            self.child.kill()?;
            self.killed = true;
            self.status = Some(self.child.wait()?);
        }
        Ok(())
    }

    /// Kills it at a random point: while it starts and recovers, or when up to `most` entries are there. Returns a
    /// description of an end before that.
    ///
    /// # Errors
    /// System errors.
    pub fn kill_anywhere(&mut self, rng: &mut Rng, most: u64) -> Result<Option<String>> {
        let mut wrong = None;
        if rng.one_in(3) {
            std::thread::sleep(Duration::from_micros(rng.below(9000)));
        } else {
            let enough = 1 + rng.below(most);
            let until = Instant::now() + TIMEOUT;
            while self.ledger.counters()?.iter().sum::<u64>() < enough && !self.has_ended()? {
                if Instant::now() > until {
                    wrong = Some("a session hung".to_owned());
                    break;
                }
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        if self.has_ended()? {
            let how = self.ended_badly(true);
            let how = how.unwrap_or_else(|| "it ended in order".to_owned());
            wrong = Some(format!("a session ended by itself: {how}"));
        }
        self.kill()?;
        Ok(wrong)
    }

    /// Returns the end of its standard error.
    pub fn stderr(&self) -> String {
        let len = self.errors.file().metadata().map_or(0, |m| m.len());
        let from = len.saturating_sub(2000);
        let mut bytes = vec![0; (len - from) as usize];
        let _ = self.errors.file().read_exact_at(&mut bytes, from);
        String::from_utf8_lossy(&bytes).trim().replace('\n', " / ")
    }

    /// Returns a description of a wrong end: a panic, a signal that the suite did not send, or, if it had to succeed,
    /// any failure.
    pub fn ended_badly(&self, must_succeed: bool) -> Option<String> {
        let status = self.status?;
        let crashed = status.signal().is_some() || status.code() == Some(101);
        let bad = crashed || (must_succeed && !status.success());
        bad.then(|| format!("the process ended with {status}: {}", self.stderr()))
    }

    /// Returns true if this signal has ended it.
    pub fn ended_by(&self, signal: Signal) -> bool {
        self.status.and_then(|s| s.signal()) == Some(signal.as_raw())
    }

    /// Returns true if it ended badly, and not by [`kill`](Self::kill).
    pub fn status_is_bad(&self, must_succeed: bool) -> bool {
        !self.killed && self.ended_badly(must_succeed).is_some()
    }

    /// Waits until it ends by itself, and kills it if it does not. Returns a description of a wrong end.
    ///
    /// # Errors
    /// System errors.
    pub fn end(&mut self, must_succeed: bool) -> Result<Option<String>> {
        let until = Instant::now() + TIMEOUT;
        while !self.has_ended()? {
            if Instant::now() > until {
                self.kill()?;
                return Ok(Some(format!("the process hung: {}", self.stderr())));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(self.ended_badly(must_succeed))
    }

    /// Returns all entries of its ledger.
    ///
    /// # Errors
    /// System errors.
    pub fn entries(&self) -> Result<Vec<Vec<Entry>>> {
        self.ledger.entries(&self.ledger.counters()?)
    }

    /// Returns the number of entries of a kind.
    ///
    /// # Errors
    /// System errors.
    pub fn count(&self, kind: Kind) -> Result<u64> {
        let entries = self.entries()?;
        Ok(entries.iter().flatten().filter(|e| e.kind == kind).count() as u64)
    }

    /// Waits until `count` entries of a kind are there.
    ///
    /// # Errors
    /// System errors.
    pub fn until(&mut self, kind: Kind, count: u64) -> Result<Waited> {
        self.until_within(kind, count, TIMEOUT)
    }

    /// Waits for `within` until `count` entries of a kind are there.
    ///
    /// # Errors
    /// System errors.
    pub fn until_within(&mut self, kind: Kind, count: u64, within: Duration) -> Result<Waited> {
        let until = Instant::now() + within;
        loop {
            let ended = self.has_ended()?;
            if self.count(kind)? >= count {
                return Ok(Waited::There);
            }
            if ended {
                return Ok(Waited::Ended);
            }
            if Instant::now() > until {
                return Ok(Waited::Hung);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Returns the session of a process that has ended. All of its entries are claims.
    ///
    /// # Errors
    /// System errors.
    pub fn session(&self, number: u64) -> Result<Session> {
        let all = self.entries()?;
        Ok(Session {
            number,
            claimed: all.clone(),
            all,
        })
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// Result of waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// The entries are there.
    There,
    /// The process ended before.
    Ended,
    /// Neither happened in time.
    Hung,
}
