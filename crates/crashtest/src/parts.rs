//! The parts of a test, and the run before them.

use crate::disk::Flushes;
use crate::live::{Cuts, Moment};
use crate::states::{Recordings, Take};
use crate::testbed::Filesystem;
use serde::Serialize;

/// Percentages of writes that the disk holds in flight.
const HOLDS: [u64; 3] = [0, 30, 50];
/// Most states of a recorded run.
const MOST_STATES: u64 = 100;
/// Most that a cut waits after the usual time of the first acknowledgement, milliseconds.
const SPREAD: u64 = 200;

/// Kinds of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// The program is ended by `kill -9`; the disk keeps its power.
    Kill,
    /// Live cuts on a disk that ignores flushes. The check must notice losses.
    Control,
    /// Live cuts on an honest disk.
    Cuts,
    /// States that a cut could have left of a recorded run.
    States,
}

impl Part {
    /// Returns the name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Part::Kill => "kill -9",
            Part::Control => "control",
            Part::Cuts => "cuts",
            Part::States => "states",
        }
    }
}

/// Figures of the program from a run without a cut.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rehearsal {
    /// The filesystem.
    pub filesystem: Filesystem,
    /// Milliseconds from the start to the first acknowledgement.
    pub first_ack_ms: u64,
    /// Acknowledgements a second afterwards.
    pub acks_per_second: f64,
    /// Flushes that reached the disk.
    pub flushes: u64,
    /// Writes that reached the disk.
    pub writes: u64,
    /// Acknowledgements.
    pub acks: u64,
}

impl Rehearsal {
    /// Returns the volume and the odds of live cuts of `part`, that come before the program has started, during the
    /// work that it did in the rehearsal, or at any time.
    pub(crate) fn cuts(&self, part: Part) -> Cuts {
        let usual = self.first_ack_ms;
        let moment = |writes, millis| Moment {
            writes,
            millis,
            any_write: 4,
        };
        Cuts {
            flushes: match part {
                Part::Control => Flushes::Ignored,
                _ => Flushes::Honest,
            },
            holds: &HOLDS,
            grains: self.filesystem.grains(),
            chain: 6,
            early_in: 2,
            early: vec![moment(60, usual + 150..usual + 151)],
            work: vec![
                moment(2 * self.writes.max(1), usual + SPREAD..usual + SPREAD + 1),
                moment(u64::from(u32::MAX), usual..usual + SPREAD),
            ],
        }
    }

    /// Returns the volume and the odds of recordings for about `states` states.
    pub(crate) fn recordings(&self, states: u64) -> Recordings {
        let take = Take {
            writes: 1500 + self.writes,
            millis: 400 + self.first_ack_ms,
            // Spread over the whole run, also if they are few.
            states: states.clamp(1, MOST_STATES),
        };
        Recordings {
            row: vec![take; 2],
            holds: &HOLDS,
            unpromised: 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With more places than wanted states all would come from the beginning, before anything is acknowledged.
    #[test]
    fn a_recording_has_as_many_states_as_are_wanted() {
        let rehearsal = Rehearsal {
            filesystem: Filesystem::Ext4,
            first_ack_ms: 1,
            acks_per_second: 1.0,
            flushes: 1,
            writes: 1,
            acks: 1,
        };
        let states = |wanted| rehearsal.recordings(wanted).row[0].states;
        assert_eq!([0, 10, 300].map(states), [1, 10, MOST_STATES]);
    }
}
