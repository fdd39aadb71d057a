//! Faults of the server: one after the other on request, or by chance with a seed.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Fault of the server in one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    /// The request is read and forgotten; the connection ends.
    LoseRequest,
    /// The request is done, and the connection ends without an answer.
    LoseAnswer,
    /// The request is done, and the connection ends within the answer.
    HalveAnswer,
    /// The request is done and answered after [`Faults::delay`].
    Delay,
    /// The request is done after [`Faults::stall`], when its client has given up, and not answered.
    Stall,
    /// Status 503, and nothing is done.
    UnavailableBefore,
    /// Status 503, and the request is done.
    UnavailableAfter,
    /// Status 409 to a put, and nothing is done.
    FalseConflict,
}

impl Fault {
    /// All faults.
    pub const ALL: [Fault; 8] = [
        Fault::LoseRequest,
        Fault::LoseAnswer,
        Fault::HalveAnswer,
        Fault::Delay,
        Fault::Stall,
        Fault::UnavailableBefore,
        Fault::UnavailableAfter,
        Fault::FalseConflict,
    ];
}

/// Faults by chance.
#[derive(Debug, Clone, PartialEq)]
pub struct Faults {
    /// Probability of each fault in a request, from 0 to 1.
    pub probability: BTreeMap<Fault, f64>,
    /// Seed of the dice.
    pub seed: u64,
    /// Duration of [`Fault::Delay`].
    pub delay: Duration,
    /// Duration of [`Fault::Stall`].
    pub stall: Duration,
}

impl Default for Faults {
    /// Returns none, with a delay of 50 ms and a stall of 4 s.
    fn default() -> Faults {
        Faults {
            probability: BTreeMap::new(),
            seed: 0,
            delay: Duration::from_millis(50),
            stall: Duration::from_secs(4),
        }
    }
}

impl Faults {
    /// Returns faults in which each kind has the same probability.
    pub fn each(probability: f64, seed: u64) -> Faults {
        Faults {
            probability: Fault::ALL.map(|fault| (fault, probability)).into(),
            seed,
            ..Faults::default()
        }
    }
}

/// Dice of a server.
#[derive(Debug)]
pub(crate) struct Dice {
    pub(crate) faults: Faults,
    random: fastrand::Rng,
    next: VecDeque<Fault>,
}

impl Dice {
    pub(crate) fn new(faults: Faults) -> Dice {
        let random = fastrand::Rng::with_seed(faults.seed);
        Dice {
            faults,
            random,
            next: VecDeque::new(),
        }
    }

    /// Adds a fault for a request to come. These go first.
    pub(crate) fn push(&mut self, fault: Fault) {
        self.next.push_back(fault);
    }

    /// Returns the fault of the next request.
    pub(crate) fn roll(&mut self, is_put: bool) -> Option<Fault> {
        if let Some(fault) = self.next.pop_front() {
            return Some(fault);
        }
        let mut at = self.random.f64();
        let found = self.faults.probability.iter().find(|(_, share)| {
            at -= **share;
            at < 0.0
        });
        let fault = found.map(|(fault, _)| *fault);
        fault.filter(|fault| is_put || *fault != Fault::FalseConflict)
    }
}
