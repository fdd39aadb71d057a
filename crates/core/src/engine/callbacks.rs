//! The callbacks of submissions.

use crate::engine::Engine;
use crate::error::Error;
use crate::policy::WaitLevel;
use crate::state::completions::Completion;
use crate::types::Acknowledged;
use std::panic::{AssertUnwindSafe, catch_unwind};

impl Engine {
    /// Calls the callbacks that are due, in the writer thread and in the order of the records. Once
    /// the log has `ended`, calls all of them, with an error for records that have not reached what
    /// their policy requires.
    pub(crate) fn call_back(&self, ended: bool) {
        loop {
            let due = {
                let state = &mut *self.state();
                state.completions.take_due(&state.pipeline, ended)
            };
            if due.is_empty() {
                return;
            }
            for Completion { at, level, call } in due {
                let reached = match level {
                    None => true,
                    Some(WaitLevel::Write) => self.written() >= at.end,
                    Some(_) => self.durable() >= at.end,
                };
                let result = if reached {
                    Ok(Acknowledged {
                        start: at.start,
                        end: at.end,
                        guarantee: self.guarantee_at(at.end),
                    })
                } else {
                    Err(self.poison.check().err().unwrap_or(Error::Closed))
                };
                // A panic in a callback does not affect the log; the panic hook has reported it.
                let _ = catch_unwind(AssertUnwindSafe(|| call(result)));
            }
            if !ended {
                // Callbacks that these have submitted run after the next writes, which else would
                // starve.
                return;
            }
        }
    }
}
