//! The check after the restart: compares acknowledged with existing records, and draws the conclusion.

use crate::canary::CanarySlots;
use crate::client::{Client, Role};
use crate::compare::{Promised, examine};
use crate::ledger::{Phase, Round, RoundOutcome, RoundState, State, Totals};
use crate::run_dir::{CANARY, CONTROL, RunDir, RunDirState, line};
use crate::verdict::{Conclusion, Judgement, conclude};
use crate::wire::Ask;
use crate::write::same_place;
use crate::{CutError, RunId, boot};
use logforce::Method;
use logforce::disk::cuts::{self, CutRun, Place};
use logforce_device::System;
use std::path::{Path, PathBuf};

/// Parameters of a check.
pub struct Check<'a> {
    /// System with the files and directories.
    pub system: &'a dyn System,
    /// Directory of the run.
    pub home: RunDir,
    /// Address of the witness, `HOST:PORT`.
    pub witness: String,
    /// Run that the user has named, for a directory whose file of the run is missing.
    pub run: Option<RunId>,
    /// Shared directory of evidence.
    pub cache: Option<&'a Path>,
    /// Version of the program.
    pub tool: &'a str,
}

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The run.
    pub run: RunId,
    /// All rounds.
    pub state: State,
    /// The latest round.
    pub round: Round,
    /// Sums over all rounds.
    pub totals: Totals,
    /// Verdict, with an explanation in words.
    pub conclusion: Conclusion,
    /// True if the system reports that the machine was not restarted since the round was written.
    pub same_boot: bool,
    /// Files that hold the verdict now.
    pub recorded: Vec<PathBuf>,
    /// Reasons why a file does not hold the verdict.
    pub not_recorded: Vec<String>,
}

/// Checks the data of a round after the power cut, reports to the witness, and records the verdict if there
/// is one. Reports a round again that was checked already.
///
/// # Errors
/// If the directory is not the run's, the witness cannot be reached or does not know the run, nothing was
/// written since the last check, a writer is still running, or the directory cannot be read. None of these
/// errors is a verdict.
pub fn check(check: &Check<'_>) -> Result<Checked, CutError> {
    let (run, has_run_file) = identify(check)?;
    let _lock = match check.home.is_there()? {
        true => Some(check.home.lock(check.system)?),
        false => None,
    };
    let (mut client, state) = Client::connect(&check.witness, Role::Check, run)?;
    let Some(mut state) = state else {
        return Err(CutError::refused(format!(
            "the witness at {} does not know run {run}: is it the right witness, and was it started \
             with the same --store as for `write`?",
            client.witness
        )));
    };
    same_place(&check.home, &state)?;
    let Some(mut round) = state.rounds.last().cloned() else {
        return Err(CutError::refused(
            "nothing was written yet: run `logforce powercut write`".to_owned(),
        ));
    };
    match round.state {
        RoundState::Void => {
            return Err(CutError::refused(format!(
                "round {} ended without a cut, so there is nothing to check: run \
                 `logforce powercut write`, and pull the plug",
                round.number
            )));
        }
        RoundState::Checked(_) => {}
        RoundState::Open => {
            let outcome = look(check, run, &state, &round, &mut client, has_run_file)?;
            client.tell(&Ask::Checked(outcome.clone()))?;
            if round.phase == Phase::Control && !has_run_file {
                // Writes the run's file again. Otherwise the run could not continue on a disk that has lost
                // it.
                check.home.claim(check.system, run)?;
            }
            round.state = RoundState::Checked(outcome);
            state.rounds.pop();
            state.rounds.push(round.clone());
        }
    }
    let conclusion = conclude(&state, &round);
    let totals = Totals::of(&state);
    let same_boot = match &round.state {
        RoundState::Checked(o) => !o.boot.is_empty() && o.boot == round.boot,
        _ => false,
    };
    let (recorded, not_recorded) = record(check, run, &state, &totals)?;
    Ok(Checked {
        run,
        state,
        round,
        totals,
        conclusion,
        same_boot,
        recorded,
        not_recorded,
    })
}

/// Returns the run, and true if the directory's file names it.
fn identify(check: &Check<'_>) -> Result<(RunId, bool), CutError> {
    let path = check.home.path().display();
    let what = match (check.home.look()?, check.run) {
        (RunDirState::Run(here), Some(asked)) if here != asked => {
            return Err(CutError::refused(format!(
                "{path} belongs to run {here}, not to {asked}"
            )));
        }
        (RunDirState::Run(run), _) => return Ok((run, true)),
        (_, Some(run)) => return Ok((run, false)),
        (RunDirState::Missing, None) => "does not exist",
        (RunDirState::Empty, None) => "is empty",
        (RunDirState::Foreign, None) => "contains other files, and no run of power cuts",
    };
    Err(CutError::refused(format!(
        "{path} {what}: is it the right directory, and is its filesystem mounted? If so, the cut has \
         lost the file that names the run: name the run with --run ID (`write` printed the ID)"
    )))
}

fn look(
    check: &Check<'_>,
    run: RunId,
    state: &State,
    round: &Round,
    client: &mut Client,
    has_run_file: bool,
) -> Result<RoundOutcome, CutError> {
    let number = round.number;
    let slots = CanarySlots { run, round: number };
    let name = match round.phase {
        Phase::Control => CONTROL,
        Phase::Measured => CANARY,
    };
    let (unforced, unforced_lost) = if check.home.is_there()? {
        let dir = check.system.directory(check.home.path());
        let opening = format!("opening {}", check.home.path().display());
        slots.lost(&*dir.map_err(CutError::io(opening))?, name, round.unforced)?
    } else {
        (round.unforced, round.unforced)
    };
    let mut outcome = RoundOutcome {
        expected: 0,
        found: 0,
        lost: 0,
        unforced,
        unforced_lost,
        boot: line(&boot()),
        findings: Vec::new(),
    };
    if round.phase == Phase::Control {
        return Ok(outcome);
    }
    let acks = client.acks()?;
    if acks.is_empty() {
        // Without acknowledgements even the log may be missing.
        return Ok(outcome);
    }
    let method: Method =
        state
            .subject
            .method
            .parse()
            .map_err(|e: logforce_device::UnknownMethod| {
                CutError::Witness(format!("the witness sent an invalid method: {e}"))
            })?;
    let promised = Promised {
        run,
        round: number,
        front: round.front,
        acks: &acks,
    };
    let examined = examine(&check.home, method, &promised)?;
    outcome.expected = acks.len() as u64;
    outcome.lost = examined.missing;
    outcome.findings = examined.findings;
    // A log that cannot be opened counts as a loss, even if a tool can still read its records.
    if examined.wrong > 0 || !has_run_file {
        outcome.lost = outcome.lost.max(1);
    }
    if !has_run_file {
        let finding = "the file that names the run is missing, although it was forced";
        outcome.findings.insert(0, finding.to_owned());
    }
    outcome.found = outcome.expected - outcome.lost;
    Ok(outcome)
}

/// Records the verdict, if there is one, in the run's directory and in the cache.
fn record(
    check: &Check<'_>,
    run: RunId,
    state: &State,
    totals: &Totals,
) -> Result<(Vec<PathBuf>, Vec<String>), CutError> {
    let (mut recorded, mut not) = (Vec::new(), Vec::new());
    let facts = check.home.facts(None)?;
    let (Ok(method), true) = (
        state.subject.method.parse::<Method>(),
        totals.cuts > 0 && totals.sees_loss(),
    ) else {
        return Ok((recorded, not));
    };
    let Some(place) = Place::of(&facts) else {
        not.push(
            "the system has no lasting identifier for this filesystem, so nothing is recorded"
                .to_owned(),
        );
        return Ok((recorded, not));
    };
    let mut entry = CutRun::new(place, method, run.0);
    entry.cuts = totals.cuts;
    entry.acknowledged = totals.expected;
    entry.lost = totals.lost;
    entry.control_lost = totals.control_lost;
    entry.kernel = line(&facts.kernel);
    entry.tool = check.tool.chars().take(60).collect();
    // If it is unknown whether the directory exists, the attempt to write there returns the error.
    let is_there = check.home.is_there().unwrap_or(true);
    let home = is_there.then_some(check.home.path());
    for dir in home.into_iter().chain(check.cache) {
        match cuts::record(dir, &entry) {
            Ok(path) => recorded.push(path),
            Err(e) => not.push(e.to_string()),
        }
    }
    if check.cache.is_none() {
        not.push("there is no shared cache: name one with --cache".to_owned());
    }
    Ok((recorded, not))
}

impl Checked {
    /// Returns true if an acknowledged record was lost.
    pub fn is_loss(&self) -> bool {
        self.conclusion.verdict == Judgement::Contradicted
    }
}
