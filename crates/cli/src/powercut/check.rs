//! `logforce powercut check`. Field names are kept compatible; see `docs/cli-json.md`.

use super::{Check as Args, TOOL};
use crate::bench::common::command_line;
use crate::bench::os;
use crate::exit::End;
use crate::output::{Sink, print};
use logforce_terminal::layout;
use logforce_witness::{Check, Checked, Judgement, Round, RoundOutcome, RoundState, RunDir, check};
use serde::Serialize;

/// Result of one check.
#[derive(Serialize)]
struct Report {
    schema: &'static str,
    version: u32,
    command: String,
    run: String,
    method: String,
    control: &'static str,
    place: String,
    verdict: &'static str,
    conclusion: String,
    same_boot: bool,
    cuts: u32,
    expected: u64,
    lost: u64,
    control_lost: u64,
    without_cut: u32,
    findings: Vec<String>,
    rounds: Vec<Line>,
    recorded: Vec<String>,
    not_recorded: Vec<String>,
}

/// Result of one round.
#[derive(Serialize)]
struct Line {
    round: u32,
    phase: &'static str,
    state: &'static str,
    acknowledged: u64,
    expected: Option<u64>,
    found: Option<u64>,
    lost: Option<u64>,
    unforced: Option<u64>,
    unforced_lost: Option<u64>,
}

/// Checks, records and reports.
pub fn run(args: &Args) -> anyhow::Result<End> {
    let json = args.json.as_ref().map(Sink::open).transpose()?;
    let stdout_has_data = matches!(json, Some(Sink::Stdout));
    let (system, cache) = (os::system(), args.run.cache());
    let checked = check(&Check {
        system: &system,
        home: RunDir::new(&args.run.dir),
        witness: args.run.witness.clone(),
        run: args.id,
        cache: cache.as_deref(),
        tool: TOOL,
    })?;
    let report = Report::new(&checked);
    print(&report.text(), stdout_has_data)?;
    if let Some(sink) = json {
        sink.fill(|out| {
            serde_json::to_writer_pretty(&mut *out, &report)?;
            out.write_all(b"\n")
        })?;
    }
    Ok(match checked.conclusion.verdict {
        Judgement::Proven | Judgement::Ready => End::Done,
        Judgement::Contradicted => End::Damaged,
        Judgement::Inconclusive => End::Inconclusive,
    })
}

impl Line {
    fn new(round: &Round) -> Line {
        let (state, outcome) = match &round.state {
            RoundState::Open => ("open", None),
            RoundState::Void => ("void", None),
            RoundState::Checked(outcome) => ("checked", Some(outcome)),
        };
        let of = |number: fn(&RoundOutcome) -> u64| outcome.map(number);
        Line {
            round: round.number,
            phase: round.phase.name(),
            state,
            acknowledged: round.acknowledged,
            expected: of(|o| o.expected),
            found: of(|o| o.found),
            lost: of(|o| o.lost),
            unforced: of(|o| o.unforced),
            unforced_lost: of(|o| o.unforced_lost),
        }
    }
}

impl Report {
    fn new(c: &Checked) -> Report {
        let findings = match &c.round.state {
            RoundState::Checked(outcome) => outcome.findings.clone(),
            _ => Vec::new(),
        };
        Report {
            schema: "logforce-powercut-check",
            version: 1,
            command: command_line(),
            run: c.run.to_string(),
            method: c.state.subject.method.clone(),
            control: c.state.subject.control.name(),
            place: c.state.subject.place.clone(),
            verdict: c.conclusion.verdict.name(),
            conclusion: c.conclusion.text.clone(),
            same_boot: c.same_boot,
            cuts: c.totals.cuts,
            expected: c.totals.expected,
            lost: c.totals.lost,
            control_lost: c.totals.control_lost,
            without_cut: c.totals.without_cut,
            findings,
            rounds: c.state.rounds.iter().map(Line::new).collect(),
            recorded: c.recorded.iter().map(|p| p.display().to_string()).collect(),
            not_recorded: c.not_recorded.clone(),
        }
    }

    fn text(&self) -> String {
        let headings = [
            "round",
            "phase",
            "acknowledged",
            "expected",
            "found",
            "lost",
            "unforced",
            "lost of these",
        ]
        .map(str::to_owned);
        let number = |n: Option<u64>| n.map_or_else(String::new, |n| n.to_string());
        let rows = self.rounds.iter().map(|l| {
            let phase = match l.state {
                "checked" => l.phase.to_owned(),
                other => format!("{} ({other})", l.phase),
            };
            // The control phase has no log.
            let of_log = |n: Option<u64>| number(n.filter(|_| l.phase == "measured"));
            vec![
                l.round.to_string(),
                phase,
                of_log(Some(l.acknowledged)),
                of_log(l.expected),
                of_log(l.found),
                of_log(l.lost),
                number(l.unforced),
                number(l.unforced_lost),
            ]
        });
        let mut text = format!("run {} of {} on {}\n\n", self.run, self.method, self.place);
        text.push_str(&layout::plain(&headings, rows, &[1]));
        text.push('\n');
        for finding in &self.findings {
            text.push_str(&format!("found: {finding}\n"));
        }
        if self.same_boot {
            text.push_str(
                "note: the system has not been restarted since the writes; a power cut usually restarts it\n",
            );
        }
        text.push_str(&format!(
            "{}: {}\n",
            self.verdict.to_uppercase(),
            self.conclusion
        ));
        for path in &self.recorded {
            text.push_str(&format!("recorded in {path}\n"));
        }
        for why in &self.not_recorded {
            text.push_str(&format!("not recorded: {why}\n"));
        }
        text
    }
}
