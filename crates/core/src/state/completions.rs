//! Callbacks of submitted records, in the order of the records.

use crate::error::Result;
use crate::policy::WaitLevel;
use crate::state::pipeline::WritePipeline;
use crate::types::{Acknowledged, RecordRange};
use std::collections::VecDeque;

/// Function of the caller, which is called with the result.
pub(crate) type Call = Box<dyn FnOnce(Result<Acknowledged>) + Send>;

/// A callback, and the level that its record must have reached first.
pub(crate) struct Completion {
    pub(crate) at: RecordRange,
    pub(crate) level: Option<WaitLevel>,
    pub(crate) call: Call,
}

impl Completion {
    fn is_due(&self, pipeline: &WritePipeline) -> bool {
        let reached = |level| pipeline.has_reached(level, self.at.end);
        self.level.is_none_or(reached)
    }
}

/// Pending callbacks.
#[derive(Default)]
pub(crate) struct Completions(VecDeque<Completion>);

impl Completions {
    pub(crate) fn push(&mut self, completion: Completion) {
        self.0.push_back(completion);
    }

    /// Returns true if a callback is due.
    pub(crate) fn has_due(&self, pipeline: &WritePipeline) -> bool {
        self.0.front().is_some_and(|c| c.is_due(pipeline))
    }

    /// Takes the callbacks that are due, or all of them if the log has `ended`.
    pub(crate) fn take_due(&mut self, pipeline: &WritePipeline, ended: bool) -> Vec<Completion> {
        let due = |c: &&Completion| ended || c.is_due(pipeline);
        let count = self.0.iter().take_while(due).count();
        self.0.drain(..count).collect()
    }
}
