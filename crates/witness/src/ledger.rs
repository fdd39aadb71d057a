//! What a witness knows of a run: a state that events change, the same when they come over the
//! connection and when they are read from its file again.

use crate::RunId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The stream of the file that nothing forces: the control phase's, and the canary's.
pub const UNFORCED: u16 = u16::MAX;
/// Streams of committers at most.
pub const STREAMS: u16 = 256;
/// Acknowledgements that are kept at a time, at most; truncation takes them away.
pub const MOST_ACKS: usize = 1 << 21;
/// Rounds of a run at most.
pub const MOST_ROUNDS: usize = 1000;
/// Longest text of anybody's, in bytes.
pub const LONGEST: usize = 600;

/// What is tested, where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// The method of the log.
    pub method: String,
    /// What the control phase writes by.
    pub control: Control,
    /// Which filesystem it is.
    pub volume: String,
    /// Where it is, for people.
    pub place: String,
    /// The version of Logforce.
    pub tool: String,
}

/// A way to write that is known to lose what it acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Control {
    /// Into the system's cache, and no barrier.
    Buffered,
    /// Past the system's cache, and no barrier: what is lost was in the device's own.
    Direct,
}

impl Control {
    /// The name used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Control::Buffered => "buffered",
            Control::Direct => "direct",
        }
    }
}

/// What a round is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Shows that the run can see loss.
    Control,
    /// Tries the log.
    Measured,
}

impl Phase {
    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Control => "control",
            Phase::Measured => "measured",
        }
    }
}

/// How far a round is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RoundState {
    /// Written to, or cut.
    Open,
    /// Ended in order: no cut.
    Void,
    /// Looked at.
    Checked(RoundOutcome),
}

/// Result of the check after a round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoundOutcome {
    /// Acknowledged records that had to be there.
    pub expected: u64,
    /// How many of them were.
    pub found: u64,
    /// How many were not; at least 1 where the log is damaged, or is none any more.
    pub lost: u64,
    /// Records of the unforced file that had to be there if there was no cut.
    pub unforced: u64,
    /// How many of them were not.
    pub unforced_lost: u64,
    /// The boot in which it was looked at.
    pub boot: String,
    /// What was wrong, in words.
    pub findings: Vec<String>,
}

/// One round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// From 1.
    pub number: u32,
    /// What for.
    pub phase: Phase,
    /// The boot in which it was written.
    pub boot: String,
    /// Commits of the log that were acknowledged, truncated ones included.
    pub acknowledged: u64,
    /// Records of the unforced file that were.
    pub unforced: u64,
    /// Records below this LSN may be gone.
    pub front: u64,
    /// How far it is.
    pub state: RoundState,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// What is tested.
    pub subject: Subject,
    /// In order.
    pub rounds: Vec<Round>,
}

/// A record that was acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ack {
    /// Whose.
    pub stream: u16,
    /// Which; each stream counts from 1 without gaps.
    pub sequence: u64,
    /// Where it begins in the log; 0 in the unforced file.
    pub lsn: u64,
}

/// Something that changes what is known.
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
    /// Of a file written anew: a round as it was, and how far each stream had come.
    Past(Round, Vec<(u16, u64)>),
    /// Of a file written anew: acknowledgements that its round has counted already.
    Kept(Vec<Ack>),
}

/// A run, and the current round's acknowledgements.
#[derive(Debug)]
pub struct RunLedger {
    pub state: State,
    /// By LSN: stream and sequence.
    acks: BTreeMap<u64, (u16, u64)>,
    /// How far each stream has come in the current round.
    reached: BTreeMap<u16, u64>,
}

fn bounded(text: &str) -> Result<(), String> {
    if text.len() > LONGEST || text.contains(char::is_control) {
        return Err("a text that is too long, or no line".to_owned());
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

    /// What is acknowledged and not truncated, by LSN.
    pub fn acks(&self) -> Vec<Ack> {
        let ack = |(&lsn, &(stream, sequence))| Ack {
            stream,
            sequence,
            lsn,
        };
        self.acks.iter().map(ack).collect()
    }

    /// Applies an event, or says why it cannot be.
    pub fn apply(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::New(_) => return Err("the run is there already".to_owned()),
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
                        "more than {MOST_ACKS} records are acknowledged and not truncated: write \
                         with a smaller --size"
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
                "the run has {MOST_ROUNDS} rounds, more are not kept: begin another in an empty \
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

    /// Events that make this state anew.
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

/// The name of a run's file.
pub fn file_name(run: RunId) -> String {
    format!("{run}.run")
}

/// A run's rounds, added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Rounds of the control phase that were looked at.
    pub controls: u32,
    /// Acknowledged writes that these lost.
    pub control_lost: u64,
    /// Measured rounds in which the canary, or the log, lost something: cuts.
    pub cuts: u32,
    /// Measured rounds that showed no cut.
    pub without_cut: u32,
    /// Commits that were acknowledged in the cuts' rounds, and had to be there.
    pub expected: u64,
    /// Acknowledged commits that were not there.
    pub lost: u64,
}

impl Totals {
    /// Sums up these rounds.
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

    /// Returns whether the control phase has lost something.
    pub fn sees_loss(&self) -> bool {
        self.control_lost > 0
    }
}
