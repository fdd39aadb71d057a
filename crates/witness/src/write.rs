//! The writer on the machine whose plug is pulled: writes until then, and sends acknowledgements to the
//! witness.

use crate::canary::CanarySlots;
use crate::client::{Client, Role};
use crate::ledger::{Control, Phase, RoundState, State, Subject, Totals};
use crate::load::{Halt, Load, Out, hear, send};
use crate::run_dir::{CANARY, CONTROL, RunDir, RunDirState, describe, line};
use crate::wire::{self, Ask, Reply};
use crate::{CutError, RunId, boot, count};
use logforce::{Guarantee, Log, Lsn, Method, Options, Verdict, disk::FileState};
use logforce_device::System;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Minimum of the log's maximum size, in bytes.
pub const LEAST_SIZE: u64 = 4 << 20;
/// Minimum size of the segments of a run's log, in bytes.
pub(super) const LEAST_SEGMENT: u64 = 256 << 10;
/// Maximum number of acknowledgements in the queue to the witness; beyond it, committers wait.
const ON_THEIR_WAY: usize = 1 << 14;
/// Interval at which the length of the log and the stop signal are checked.
const LOOK: Duration = Duration::from_millis(10);

/// Parameters of a round.
pub struct Write<'a> {
    /// System with the files and directories.
    pub system: &'a dyn System,
    /// Directory of the run.
    pub home: RunDir,
    /// Address of the witness, `HOST:PORT`.
    pub witness: String,
    /// Tested method; `None` means the one that a log opened there would use.
    pub method: Option<Method>,
    /// Way in which the control phase writes.
    pub control: Option<Control>,
    /// Maximum size of the log in bytes.
    pub size: u64,
    /// Number of threads that commit and wait.
    pub committers: u16,
    /// Number of threads that submit and wait later.
    pub submitters: u16,
    /// Time after which the round ends without a power cut, for a dry run.
    pub duration: Option<Duration>,
    /// Shared directory of evidence.
    pub cache: Option<&'a Path>,
    /// True once the user wants to stop.
    pub stop: &'a AtomicBool,
    /// Version of the program.
    pub tool: &'a str,
}

/// A round that has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// The run.
    pub run: RunId,
    /// Number of the round.
    pub round: u32,
    /// Purpose of the round.
    pub phase: Phase,
    /// Tested method and place.
    pub subject: Subject,
}

/// End of a round without a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The user has stopped it.
    Interrupted,
    /// Its time was over.
    Elapsed,
}

/// A round that ended without a power cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The round.
    pub started: Started,
    /// Number of commits that were sent to the witness.
    pub acknowledged: u64,
    /// Number of writes to the unforced file that were sent to the witness.
    pub unforced: u64,
    /// Reason for the end.
    pub ended: Ended,
}

/// Writes until the power is cut. Calls `started` when the round has begun. Calls `progress` about once a
/// second with the numbers of commits and unforced writes that were sent.
///
/// # Errors
/// If the directory or the run does not allow another round, the guarantee is not available here, the log
/// fails, or the connection to the witness is lost. Returns without an error only if there was no power cut.
pub fn write(
    write: &Write<'_>,
    started: &mut dyn FnMut(&Started),
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Written, CutError> {
    let home = &write.home;
    let (run, is_known) = identify(write)?;
    // Locks the directory before connecting. Otherwise the witness would end the connection of another writer
    // here.
    let lock = match home.is_there()? {
        true => Some(home.lock(write.system)?),
        false => None,
    };
    let (mut client, state) = Client::connect(&write.witness, Role::Write, run)?;
    let state = match (is_known, state) {
        (true, None) => {
            return Err(CutError::refused(format!(
                "the witness at {} does not know run {run} of {}: was it started with another \
                 --store? To begin a run anew, use an empty directory",
                client.witness,
                home.path().display()
            )));
        }
        (_, Some(state)) => state,
        (_, None) => {
            let subject = new_subject(write)?;
            client.tell(&Ask::New(subject.clone()))?;
            home.claim(write.system, run)?;
            let rounds = Vec::new();
            State { subject, rounds }
        }
    };
    let _lock = match lock {
        Some(lock) => lock,
        None => home.lock(write.system)?,
    };
    let phase = next_phase(write, &state)?;
    let open = match phase {
        Phase::Control => None,
        Phase::Measured => Some(open_log(write, &state)?),
    };
    let front = open.as_ref().map_or(0, |log| log.tail_lsn().0);
    let boot = line(&boot());
    let round = match client.ask(&Ask::Begin { phase, boot, front })? {
        Reply::Round(round) => round,
        other => return Err(client.unexpected(&other)),
    };
    let begun = Started {
        run,
        round,
        phase,
        subject: state.subject.clone(),
    };
    let dir = write
        .system
        .directory(home.path())
        .map_err(CutError::io(format!("opening {}", home.path().display())))?;
    let slots = CanarySlots { run, round };
    let (name, control) = match phase {
        Phase::Control => (CONTROL, state.subject.control),
        // A power cut always loses data that is only in the system's cache.
        Phase::Measured => (CANARY, Control::Buffered),
    };
    let facts = home.facts(None)?;
    let file = slots.create(&*dir, name, control, facts.write_unit())?;
    started(&begun);
    // With data=journal, ext4 forces all data of all files with each commit of its journal.
    let mut options = facts.mount_options.split(',');
    let load = Load {
        run,
        round,
        halt: &Halt::default(),
        sent: AtomicU64::new(0),
        unforced: AtomicU64::new(0),
        takes_all: options.any(|o| o == "data=journal"),
        marks: Mutex::default(),
        stuck: Mutex::default(),
    };
    run_round(write, client, open, file, begun, &load, progress)
}

/// Returns the run of the directory and true, or a new ID and false.
fn identify(write: &Write<'_>) -> Result<(RunId, bool), CutError> {
    let path = write.home.path().display();
    match write.home.look()? {
        RunDirState::Run(run) => Ok((run, true)),
        RunDirState::Empty | RunDirState::Missing => {
            let runtime = write.system.runtime();
            let id = (u128::from(runtime.random()) << 64) | u128::from(runtime.random());
            Ok((RunId(id), false))
        }
        RunDirState::Foreign => Err(CutError::refused(format!(
            "{path} contains other files, and no run of power cuts: name a new or an empty directory \
             on the disk that you want to test"
        ))),
    }
}

fn new_subject(write: &Write<'_>) -> Result<Subject, CutError> {
    let facts = write.home.facts(write.cache)?;
    let method = match write.method {
        Some(method) => method,
        None if write.home.is_there()? => {
            logforce::disk::calibration::known_or_measured(write.home.path(), write.cache)?
                .decision
                .method
        }
        None => facts.default_method(),
    };
    let path = write.home.path().display();
    match facts.assess(method, FileState::Zeroed) {
        Some(a) if a.guarantee >= Guarantee::PowerLoss => {}
        Some(a) => {
            return Err(CutError::refused(format!(
                "{path}: {method} guarantees only {} here, not power-loss, so a power cut would prove nothing: \
                 {}",
                a.guarantee, a.evidence
            )));
        }
        None => {
            return Err(CutError::refused(format!(
                "{path}: {method} is not available here: {} has no direct I/O",
                facts.filesystem
            )));
        }
    }
    Ok(Subject {
        method: method.to_string(),
        control: write.control.unwrap_or(Control::Buffered),
        volume: line(facts.lasting_volume().unwrap_or_default()),
        place: describe(&facts),
        tool: line(write.tool),
    })
}

fn next_phase(write: &Write<'_>, state: &State) -> Result<Phase, CutError> {
    let path = write.home.path().display();
    let subject = &state.subject;
    let asked = [
        (
            "--method",
            write.method.map(|m| m.to_string()),
            &*subject.method,
        ),
        (
            "--control",
            write.control.map(|c| c.name().to_owned()),
            subject.control.name(),
        ),
    ];
    for (flag, asked, of_run) in asked {
        if let Some(asked) = asked.filter(|a| a != of_run) {
            return Err(CutError::refused(format!(
                "the run in {path} was begun with {flag} {of_run}: for {asked} begin another run in an \
                 empty directory"
            )));
        }
    }
    same_place(&write.home, state)?;
    if let Some(last) = state.rounds.last()
        && last.state == RoundState::Open
        && last.acknowledged + last.unforced > 0
    {
        return Err(CutError::refused(format!(
            "round {} in {path} was not checked yet: run `logforce powercut check` first",
            last.number
        )));
    }
    let totals = Totals::of(state);
    if totals.lost > 0 {
        return Err(CutError::refused(format!(
            "the run in {path} is over: {} lost {} of {} acknowledged commits. For another, use an \
             empty directory",
            subject.method, totals.lost, totals.expected
        )));
    }
    Ok(if totals.sees_loss() {
        Phase::Measured
    } else {
        Phase::Control
    })
}

/// Refuses a directory that is not on the run's filesystem: a copy, or something not mounted.
pub fn same_place(home: &RunDir, state: &State) -> Result<(), CutError> {
    let facts = home.facts(None)?;
    let here = line(facts.lasting_volume().unwrap_or_default());
    let there = &state.subject.volume;
    if here != *there && !here.is_empty() && !there.is_empty() {
        return Err(CutError::refused(format!(
            "{} is on another filesystem ({}, {here}) than the run's ({}, {there}): is it mounted? \
             A copy of the directory proves nothing about the original disk",
            home.path().display(),
            describe(&facts),
            state.subject.place
        )));
    }
    Ok(())
}

fn open_log(write: &Write<'_>, state: &State) -> Result<Log, CutError> {
    let path = write.home.log();
    let method: Method = state
        .subject
        .method
        .parse()
        .map_err(|e: logforce_device::UnknownMethod| CutError::refused(e.to_string()))?;
    let size = write.size.max(LEAST_SIZE);
    // Uses small segments, so that the log often switches and reuses them.
    let segment = (size / 16).clamp(LEAST_SEGMENT, 16 << 20) / (64 << 10) * (64 << 10);
    let mut options = Options::new()
        .method(method)
        .require(Guarantee::PowerLoss)
        // The run tests the guarantee, so no party has to declare it.
        .require_verdict(Verdict::Unknown)
        .segment_size(segment)
        .max_log_size(size);
    if let Some(cache) = write.cache {
        options = options.calibration_cache(cache);
    }
    // If records were acknowledged in an earlier measured round, the log must exist. Otherwise it is created
    // anew.
    let is_there = |r: &crate::Round| r.phase == Phase::Measured && r.acknowledged > 0;
    if !state.rounds.iter().any(is_there) {
        match std::fs::remove_dir_all(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(CutError::io(format!("removing {}", path.display()))(e));
            }
            _ => {}
        }
        return Ok(logforce::create_new(&path, options)?);
    }
    let log = logforce::open_existing(&path, options)?;
    // Each round begins with an empty log, and reuses the segments.
    log.truncate_front(log.tail_lsn())?;
    Ok(log)
}

fn run_round(
    write: &Write<'_>,
    client: Client,
    log: Option<Log>,
    file: crate::canary::Writer,
    started: Started,
    load: &Load<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Written, CutError> {
    let halt = load.halt;
    let witness = client.witness.clone();
    let cloned = client.stream.try_clone();
    let reader = Client {
        stream: cloned.map_err(CutError::io("sharing the connection to the witness"))?,
        witness: witness.clone(),
    };
    let (out, outgoing) = sync_channel(ON_THEIR_WAY);
    let (asked, asks) = channel();
    let ended = thread::scope(|scope| {
        scope.spawn(move || send(client, &outgoing, &asked, halt));
        scope.spawn(move || hear(reader, &asks, halt));
        let mut threads = Vec::new();
        if let Some(log) = &log {
            for stream in 0..write.committers + write.submitters {
                let out = out.clone();
                threads.push(scope.spawn(move || {
                    if stream < write.committers {
                        load.commit(log, stream, &out);
                    } else {
                        load.submit(log, stream, &out);
                    }
                }));
            }
        }
        let its = out.clone();
        threads.push(scope.spawn(move || load.dribble(file, &its)));
        let ended = attend(write, log.as_ref(), load, &out, progress);
        halt.stop();
        for thread in threads {
            let _ = thread.join();
        }
        // The round ended in order, so it is void.
        let is_void = ended.is_some() && ask(&out, Ask::Void, &Halt::default());
        drop(out);
        ended.filter(|_| is_void)
    });
    let (acknowledged, unforced) = (load.sent.load(Relaxed), load.unforced.load(Relaxed));
    let failure = halt.why();
    if let Some(log) = log {
        // Ignores an error, which would hide the result of the round.
        let _ = log.close();
    }
    match (ended, failure) {
        (Some(ended), None) => Ok(Written {
            started,
            acknowledged,
            unforced,
            ended,
        }),
        (_, Some(CutError::Witness(why))) => Err(CutError::Witness(format!(
            "{why}. Round {} stopped after {} and {} \
             were sent; no cut took place so far. Start the witness again with the same --store, \
             run `logforce powercut check`, then `write` again",
            started.round,
            count(acknowledged, "commit"),
            count(unforced, "unforced write")
        ))),
        (_, Some(other)) => Err(other),
        (None, None) => Err(CutError::Witness(format!(
            "cannot report to the witness at {witness} that round {} ended without a cut: run \
             `logforce powercut check`",
            started.round
        ))),
    }
}

/// Truncates the log, and checks the clock and the stop signal, until the round ends. Returns `None` if it
/// ended with an error.
fn attend(
    write: &Write<'_>,
    log: Option<&Log>,
    load: &Load<'_>,
    out: &SyncSender<Out>,
    progress: &mut dyn FnMut(u64, u64),
) -> Option<Ended> {
    let size = write.size.max(LEAST_SIZE);
    let began = Instant::now();
    let mut reported = began;
    while !load.halt.is_on() {
        if write.stop.load(Relaxed) {
            return Some(Ended::Interrupted);
        }
        if write.duration.is_some_and(|d| began.elapsed() >= d) {
            return Some(Ended::Elapsed);
        }
        if reported.elapsed() >= Duration::from_secs(1) {
            reported = Instant::now();
            progress(load.sent.load(Relaxed), load.unforced.load(Relaxed));
        }
        if let Some(log) = log {
            let (tail, front) = (log.tail_lsn(), log.front_lsn());
            let keep = Lsn(tail.0.saturating_sub(size / 4));
            if tail.since(front) > size / 2
                && let Some(to) = load.mark_below(keep)
            {
                // Informs the witness first. Otherwise a power cut after the truncation would look like a
                // loss.
                if ask(out, Ask::Front(to.0), load.halt)
                    && let Err(e) = log.truncate_front(to)
                {
                    load.halt.fail(e.into());
                }
                continue;
            }
        }
        thread::sleep(LOOK);
    }
    None
}

/// Sends a request to the witness behind the waiting acknowledgements. Returns true once it is done.
fn ask(out: &SyncSender<Out>, what: Ask, halt: &Halt) -> bool {
    let (done, is_done): (_, Receiver<()>) = sync_channel(1);
    if out.send(Out::Ask(what, done)).is_err() {
        return false;
    }
    let until = Instant::now() + 2 * wire::TIMEOUT;
    while !halt.is_on() && Instant::now() < until {
        match is_done.recv_timeout(LOOK) {
            Ok(()) => return true,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
    false
}
