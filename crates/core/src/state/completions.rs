//! Callbacks of submitted records, in the order of the records.

use crate::error::Result;
use crate::policy::Policy;
use crate::state::pipeline::WritePipeline;
use crate::types::{Acknowledged, RecordRange};
use logforce_format::Lsn;
use std::collections::VecDeque;

/// Function of the caller, which is called with the result.
pub(crate) type Call = Box<dyn FnOnce(Result<Acknowledged>) + Send>;

/// A callback, and the policy that its record must meet first.
pub(crate) struct Completion {
    pub(crate) at: RecordRange,
    pub(crate) policy: Policy,
    pub(crate) call: Call,
}

/// Pending callbacks.
#[derive(Default)]
pub(crate) struct Completions {
    pending: VecDeque<Completion>,
    /// LSN below which callbacks do not wait for the replica: the replicated LSN, or the highest possible
    /// one after the replica has ended, because the callbacks then get an error.
    replicated: Lsn,
}

impl Completions {
    pub(crate) fn push(&mut self, completion: Completion) {
        self.pending.push_back(completion);
    }

    /// Notes how far callbacks need not wait for the replica.
    pub(crate) fn note_replicated(&mut self, replicated: Lsn) {
        self.replicated = replicated;
    }

    fn is_due(&self, completion: &Completion, pipeline: &WritePipeline) -> bool {
        let Completion { at, policy, .. } = completion;
        let reached = |level| pipeline.has_reached(level, at.end);
        policy.level().is_none_or(reached) && (!policy.is_replicated() || self.replicated >= at.end)
    }

    /// Returns true if a callback is due.
    pub(crate) fn has_due(&self, pipeline: &WritePipeline) -> bool {
        let first = self.pending.front();
        first.is_some_and(|c| self.is_due(c, pipeline))
    }

    /// Takes the callbacks that are due, or all of them if the log has `ended`.
    pub(crate) fn take_due(&mut self, pipeline: &WritePipeline, ended: bool) -> Vec<Completion> {
        let due = |c: &&Completion| ended || self.is_due(c, pipeline);
        let count = self.pending.iter().take_while(due).count();
        self.pending.drain(..count).collect()
    }
}
