//! Processes of this program that a fault meets.

use super::TIMEOUT;
use crate::check::Session;
use crate::ledger::{Entry, Kind, SubjectLedger};
use crate::pages::run as work_on_pages;
use crate::subject::seam::Fault;
use crate::subject::{self, Job, Space};
use anyhow::{Context, Result};
use logforce::Method;
use logforce_crashtest::testbed::Image;
use logforce_testkit::Rng;
use serde::{Deserialize, Serialize};
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What the process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Works the log: [`Workload`].
    Work,
    /// Works a page file: [`Job`](crate::pages::Job).
    PageWork,
    /// Reads it: [`readers::Reading`](super::readers::Reading).
    Read,
    /// Opens it again and again: [`contention::Contending`](super::contention::Contending).
    Contention,
    /// Has its system calls fail: [`inject`](super::inject).
    Inject,
}

impl Role {
    /// Does it, as `job` (JSON) says.
    ///
    /// # Errors
    /// As the role says.
    pub fn run(self, job: &str) -> Result<()> {
        match self {
            Role::Work => role_work(job),
            Role::PageWork => work_on_pages(&serde_json::from_str(job)?),
            Role::Read => super::readers::role_read(job),
            Role::Contention => super::contention::role_contention(job),
            Role::Inject => super::inject::role_inject(job),
        }
    }

    /// The first argument.
    pub fn name(self) -> &'static str {
        match self {
            Role::Work => "process-work",
            Role::PageWork => "page-work",
            Role::Read => "process-read",
            Role::Contention => "process-contention",
            Role::Inject => "process-inject",
        }
    }
}

/// Whose process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// May use the blocks that a filesystem reserves.
    Root,
    /// May not.
    Nobody,
}

/// The ids of the user and group `nobody`.
pub const NOBODY: u32 = 65534;

impl User {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            User::Root => "root",
            User::Nobody => "nobody",
        }
    }
}

/// A subject, and under what workload it works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// What it does.
    pub job: Job,
    /// What it does about space.
    pub space: Space,
}

impl Workload {
    /// A log in `dir` that is worked for good and finds little space to leave.
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

/// Works a log, as [`Workload`] says.
///
/// # Errors
/// If it is none, or the log cannot be opened.
pub fn role_work(json: &str) -> Result<()> {
    let workload: Workload = serde_json::from_str(json)?;
    subject::run(&workload.job, workload.space)
}

/// The path by which a process finds the ledger that it was started with: that of its standard
/// input, since an unprivileged user cannot open files of this process.
pub fn ledger_path() -> PathBuf {
    PathBuf::from("/proc/self/fd/0")
}

/// A process; killed when dropped.
#[derive(Debug)]
pub struct Started {
    child: Child,
    /// What it was promised.
    pub ledger: SubjectLedger,
    errors: Image,
    status: Option<ExitStatus>,
    killed: bool,
}

impl Started {
    /// Starts one. Its ledger is at `ledger_path`.
    ///
    /// # Errors
    /// If it does not start.
    pub fn new<J: Serialize>(role: Role, job: &J, user: User) -> Result<Started> {
        let ledger = SubjectLedger::new()?;
        Self::with(ledger, role, job, user)
    }

    /// Starts one that goes on in a ledger.
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
            .args([role.name(), &serde_json::to_string(job)?])
            .current_dir("/")
            .stdin(Stdio::from(ledger.file().try_clone()?))
            .stdout(Stdio::null())
            .stderr(Stdio::from(errors.file().try_clone()?));
        if user == User::Nobody {
            command.uid(NOBODY).gid(NOBODY);
        }
        let child = command
            .spawn()
            .with_context(|| format!("the process '{}' of {}", role.name(), user.name()))?;
        Ok(Started {
            child,
            ledger,
            errors,
            status: None,
            killed: false,
        })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended by itself.
    ///
    /// # Errors
    /// Of the system.
    pub fn has_ended(&mut self) -> Result<bool> {
        if self.status.is_none() {
            self.status = self.child.try_wait()?;
        }
        Ok(self.status.is_some())
    }

    /// Ends it in the midst of what it does.
    ///
    /// # Errors
    /// Of the system.
    pub fn kill(&mut self) -> Result<()> {
        if !self.has_ended()? {
            self.child.kill()?;
            self.killed = true;
            self.status = Some(self.child.wait()?);
        }
        Ok(())
    }

    /// Ends it at a random point: while it starts and recovers, or when up to `most` entries are
    /// there. Returns what was wrong before.
    ///
    /// # Errors
    /// Of the system.
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
            wrong = Some(format!("a session that nobody ended: {how}"));
        }
        self.kill()?;
        Ok(wrong)
    }

    /// What it wrote to standard error, the last of it.
    pub fn stderr(&self) -> String {
        let len = self.errors.file().metadata().map_or(0, |m| m.len());
        let from = len.saturating_sub(2000);
        let mut bytes = vec![0; (len - from) as usize];
        let _ = self.errors.file().read_exact_at(&mut bytes, from);
        String::from_utf8_lossy(&bytes).trim().replace('\n', " / ")
    }

    /// What is wrong with how it ended by itself: a panic, a signal that the suite did not send, or, if
    /// it had to succeed, any failure.
    pub fn ended_badly(&self, must_succeed: bool) -> Option<String> {
        let status = self.status?;
        let crashed = status.signal().is_some() || status.code() == Some(101);
        let bad = crashed || (must_succeed && !status.success());
        bad.then(|| format!("the process ended with {status}: {}", self.stderr()))
    }

    /// Whether it ended other than by [`kill`](Self::kill), and badly.
    pub fn status_is_bad(&self, must_succeed: bool) -> bool {
        !self.killed && self.ended_badly(must_succeed).is_some()
    }

    /// Waits for it to end by itself; kills it and says so if it does not.
    ///
    /// # Errors
    /// Of the system.
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

    /// All entries of its ledger so far.
    ///
    /// # Errors
    /// Of the system.
    pub fn entries(&self) -> Result<Vec<Vec<Entry>>> {
        self.ledger.entries(&self.ledger.counters()?)
    }

    /// How many entries of a kind there are.
    ///
    /// # Errors
    /// Of the system.
    pub fn count(&self, kind: Kind) -> Result<u64> {
        let entries = self.entries()?;
        Ok(entries.iter().flatten().filter(|e| e.kind == kind).count() as u64)
    }

    /// Waits until so many entries of a kind are there. Says if that does not come.
    ///
    /// # Errors
    /// Of the system.
    pub fn until(&mut self, kind: Kind, count: u64) -> Result<Waited> {
        self.until_within(kind, count, TIMEOUT)
    }

    /// The same, for so long.
    ///
    /// # Errors
    /// Of the system.
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

    /// What it did, when it is dead: all of it are claims.
    ///
    /// # Errors
    /// Of the system.
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

/// What came of waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// It is there.
    There,
    /// The process has ended before.
    Ended,
    /// Neither.
    Hung,
}
