//! The boot to which a handle belongs, and how its calls enter the disk.

use super::counts::FaultKind;
use super::failing_calls::{Call, Refusal};
use super::state::{State, power_is_cut};
use super::{Fault, SimDisk};
use crate::Points;
use std::io;
use std::sync::{Arc, MutexGuard};

/// A boot of a disk: handles that were opened before the last power cut return errors.
#[derive(Clone)]
pub(super) struct Boot {
    pub disk: SimDisk,
    pub runtime: Arc<dyn Points>,
    pub boot: u64,
}

impl Boot {
    /// Makes a scheduling point, then returns the state if it is still that of this boot.
    ///
    /// Failing calls fail here. Completions and barriers fail in their own code, which decides the resulting
    /// state.
    pub fn enter(&self, call: Call) -> io::Result<MutexGuard<'_, State>> {
        let (s, how) = self.look(call)?;
        how.map_or(Ok(s), |how| Err(how.error()))
    }

    /// Returns a number below `end`, from the disk's generator.
    pub fn below(&self, end: usize) -> usize {
        self.disk.lock().rng.below(end as u64) as usize
    }

    /// Does the same as [`enter`](Self::enter), for a call that handles its failure itself.
    pub fn look(&self, call: Call) -> io::Result<(MutexGuard<'_, State>, Option<Refusal>)> {
        self.runtime.point();
        self.state(call)
    }

    /// Returns the state as [`look`](Self::look) does, without a scheduling point.
    pub fn state(&self, call: Call) -> io::Result<(MutexGuard<'_, State>, Option<Refusal>)> {
        let mut s = self.disk.lock();
        if s.boot != self.boot {
            return Err(io::Error::other(
                "this handle was opened before the last power cut",
            ));
        }
        if s.cut {
            return Err(power_is_cut());
        }
        let how = s.fails(call);
        Ok((s, how))
    }
}

/// Ends a call for which a fault was planned.
pub(super) fn check(s: &State, fault: Option<Fault>) -> io::Result<()> {
    s.count_fault(fault, FaultKind::OtherError);
    fault.map_or(Ok(()), |f| Err(f.error()))
}
