//! A witness's knowledge of a run: a state that events change. Events from the connection and events that are
//! read from the file have the same effect.

use crate::RunId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Stream of the unforced file: that of the control phase, or the canary.
pub const UNFORCED: u16 = u16::MAX;
/// Maximum number of committers' streams.
pub const STREAMS: u16 = 256;
/// Maximum number of acknowledgements that are kept at a time. Truncation removes them.
pub const MOST_ACKS: usize = 1 << 21;
/// Maximum number of rounds of a run.
pub const MOST_ROUNDS: usize = 1000;
/// Maximum length of a text that a client sends, in bytes.
pub const LONGEST: usize = 600;

/// Tested method and place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// Method of the log.
    pub method: String,
    /// Way in which the control phase writes.
    pub control: Control,
    /// Identity of the filesystem.
    pub volume: String,
    /// Description of the filesystem and device, for human readers.
    pub place: String,
    /// Version of Logforce.
    pub tool: String,
}

/// Way to write that is known to lose acknowledged records in a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Control {
    /// Writes to the system's cache, without a barrier.
    Buffered,
    /// Direct I/O without a barrier: only records in the device's cache can be lost.
    Direct,
}

impl Control {
    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Control::Buffered => "buffered",
            Control::Direct => "direct",
        }
    }
}

/// Purpose of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Shows that the run can detect loss.
    Control,
    /// Tests the log.
    Measured,
}

impl Phase {
    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Control => "control",
            Phase::Measured => "measured",
        }
    }
}

/// Progress of a round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RoundState {
    /// Being written, or ended by a power cut.
    Open,
    /// Ended in order, without a power cut.
    Void,
    /// Checked after the power cut.
    Checked(RoundOutcome),
}

/// Result of the check after a round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoundOutcome {
    /// Number of acknowledged records that must be in the log.
    pub expected: u64,
    /// Number of these that were found.
    pub found: u64,
    /// Number of these that were lost; at least 1 if the log is damaged or missing.
    pub lost: u64,
    /// Number of records of the unforced file that would be there without a power cut.
    pub unforced: u64,
    /// Number of these that were lost.
    pub unforced_lost: u64,
    /// Boot in which the check ran.
    pub boot: String,
    /// Findings, in words.
    pub findings: Vec<String>,
}

/// One round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// Number of the round, from 1.
    pub number: u32,
    /// Purpose of the round.
    pub phase: Phase,
    /// Boot in which the round was written.
    pub boot: String,
    /// Number of acknowledged commits of the log, including truncated ones.
    pub acknowledged: u64,
    /// Number of acknowledged records of the unforced file.
    pub unforced: u64,
    /// LSN below which records may be missing.
    pub front: u64,
    /// Progress of the round.
    pub state: RoundState,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Tested method and place.
    pub subject: Subject,
    /// Rounds, in order.
    pub rounds: Vec<Round>,
}

/// An acknowledged record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ack {
    /// Stream of the record.
    pub stream: u16,
    /// Number of the record; each stream counts from 1 without gaps.
    pub sequence: u64,
    /// Start of the record in the log; 0 in the unforced file.
    pub lsn: u64,
}

/// A change of a run's state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Event {
    New(Subject),
    Begin {
        phase: Phase,
        boot: String,
        front: u64,
    },
    Acks(Vec<Ack>),
    Front(u64),
    Void,
    Checked(RoundOutcome),
    /// A round with the last number of each stream, in a rewritten file.
    Past(Round, Vec<(u16, u64)>),
    /// Acknowledgements that their round has counted already, in a rewritten file.
    Kept(Vec<Ack>),
}

/// A run, and the current round's acknowledgements.
#[derive(Debug)]
pub struct RunLedger {
    pub state: State,
    /// Stream and number of each acknowledged record, by LSN.
    acks: BTreeMap<u64, (u16, u64)>,
    /// Last number of each stream in the current round.
    reached: BTreeMap<u16, u64>,
}

fn bounded(text: &str) -> Result<(), String> {
    if text.len() > LONGEST || text.contains(char::is_control) {
        return Err("invalid text in the run: maximum 600 bytes, no control characters".to_owned());
    }
    Ok(())
}

impl RunLedger {
    pub fn new(subject: Subject) -> Result<RunLedger, String> {
        for text in [
            &subject.method,
            &subject.volume,
            &subject.place,
            &subject.tool,
        ] {
            bounded(text)?;
        }
        let rounds = Vec::new();
        Ok(RunLedger {
            state: State { subject, rounds },
            acks: BTreeMap::new(),
            reached: BTreeMap::new(),
        })
    }

    /// Returns the acknowledgements that are not truncated, by LSN.
    pub fn acks(&self) -> Vec<Ack> {
        let ack = |(&lsn, &(stream, sequence))| Ack {
            stream,
            sequence,
            lsn,
        };
        self.acks.iter().map(ack).collect()
    }

    /// Applies an event. Fails with the reason if the event is not possible.
    pub fn apply(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::New(_) => return Err("the run exists already".to_owned()),
            Event::Begin { phase, boot, front } => return self.begin(phase, boot, front),
            Event::Past(round, reached) => {
                self.acks.clear();
                self.reached = reached.into_iter().collect();
                self.state.rounds.push(round);
                return Ok(());
            }
            Event::Kept(acks) => {
                let entry = |a: Ack| (a.lsn, (a.stream, a.sequence));
                self.acks.extend(acks.into_iter().map(entry));
                return Ok(());
            }
            _ => {}
        }
        let open = |r: &&mut Round| r.state == RoundState::Open;
        let Some(round) = self.state.rounds.last_mut().filter(open) else {
            return Err("no round is in progress".to_owned());
        };
        match event {
            Event::Acks(acks) => {
                for ack in acks {
                    let last = self.reached.get(&ack.stream).copied().unwrap_or(0);
                    let is_known = ack.stream == UNFORCED || ack.stream < STREAMS;
                    if !is_known || Some(ack.sequence) != last.checked_add(1) {
                        return Err(format!(
                            "record {} of stream {} was acknowledged after record {last}",
                            ack.sequence, ack.stream
                        ));
                    }
                    self.reached.insert(ack.stream, ack.sequence);
                    if ack.stream == UNFORCED {
                        round.unforced += 1;
                        continue;
                    }
                    round.acknowledged += 1;
                    let other = (ack.lsn >= round.front)
                        .then(|| self.acks.insert(ack.lsn, (ack.stream, ack.sequence)));
                    if other.flatten().is_some() {
                        return Err(format!("two records at LSN {} were acknowledged", ack.lsn));
                    }
                }
                if self.acks.len() > MOST_ACKS {
                    return Err(format!(
                        "more than {MOST_ACKS} acknowledged records are not truncated: use a smaller \
                         --size"
                    ));
                }
            }
            Event::Front(front) => {
                round.front = round.front.max(front);
                self.acks = self.acks.split_off(&round.front);
            }
            Event::Void => round.state = RoundState::Void,
            Event::Checked(outcome) => {
                outcome.findings.iter().try_for_each(|f| bounded(f))?;
                bounded(&outcome.boot)?;
                if outcome.findings.len() > 8 {
                    return Err("too many findings".to_owned());
                }
                round.state = RoundState::Checked(outcome);
            }
            Event::New(_) | Event::Begin { .. } | Event::Past(..) | Event::Kept(_) => {}
        }
        Ok(())
    }

    fn begin(&mut self, phase: Phase, boot: String, front: u64) -> Result<(), String> {
        bounded(&boot)?;
        if let Some(last) = self.state.rounds.last_mut()
            && last.state == RoundState::Open
        {
            if last.acknowledged + last.unforced > 0 {
                return Err(format!(
                    "round {} was not checked yet: run `logforce powercut check` first",
                    last.number
                ));
            }
            last.state = RoundState::Void;
        }
        if phase == Phase::Measured && !Totals::of(&self.state).sees_loss() {
            return Err("the control phase has not lost anything yet".to_owned());
        }
        if self.state.rounds.len() >= MOST_ROUNDS {
            return Err(format!(
                "the run has {MOST_ROUNDS} rounds, which is the maximum: begin another run in an empty \
                 directory"
            ));
        }
        self.acks.clear();
        self.reached.clear();
        self.state.rounds.push(Round {
            number: self.state.rounds.len() as u32 + 1,
            phase,
            boot,
            acknowledged: 0,
            unforced: 0,
            front,
            state: RoundState::Open,
        });
        Ok(())
    }

    /// Returns events that create this state.
    pub fn snapshot(&self) -> Vec<Event> {
        let mut events = vec![Event::New(self.state.subject.clone())];
        let last = self.state.rounds.len();
        for (n, round) in self.state.rounds.iter().enumerate() {
            let reached = if n + 1 == last {
                self.reached.iter().map(|(s, q)| (*s, *q)).collect()
            } else {
                Vec::new()
            };
            events.push(Event::Past(round.clone(), reached));
        }
        events.extend(
            self.acks()
                .chunks(500)
                .map(|acks| Event::Kept(acks.to_vec())),
        );
        events
    }
}

/// Returns the name of a run's file.
pub fn file_name(run: RunId) -> String {
    format!("{run}.run")
}

/// Sums over a run's rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Number of checked rounds of the control phase.
    pub controls: u32,
    /// Number of acknowledged writes that these rounds lost.
    pub control_lost: u64,
    /// Number of power cuts: measured rounds in which the canary or the log lost something.
    pub cuts: u32,
    /// Number of measured rounds that showed no power cut.
    pub without_cut: u32,
    /// Number of acknowledged commits that had to survive these power cuts.
    pub expected: u64,
    /// Number of acknowledged commits that were lost.
    pub lost: u64,
}

impl Totals {
    /// Returns the sums over the rounds of a run.
    pub fn of(state: &State) -> Totals {
        let mut t = Totals::default();
        for round in &state.rounds {
            let RoundState::Checked(o) = &round.state else {
                continue;
            };
            match round.phase {
                Phase::Control => {
                    t.controls += 1;
                    t.control_lost += o.unforced_lost;
                }
                Phase::Measured if o.lost > 0 || (o.unforced_lost > 0 && o.expected > 0) => {
                    t.cuts += 1;
                    t.expected += o.expected;
                    t.lost += o.lost;
                }
                Phase::Measured => t.without_cut += 1,
            }
        }
        t
    }

    /// Returns true if the control phase has lost something.
    pub fn sees_loss(&self) -> bool {
        self.control_lost > 0
    }
}
