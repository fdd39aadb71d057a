//! The log's own writing thread: carries out what nobody waits for in a thread of its own, writes
//! batches that fill up while nobody forces, and puts down stamps.

use crate::log::Shared;
use std::sync::atomic::Ordering::*;

impl Shared {
    /// The body of the thread `logforce-write`.
    pub(crate) fn serve(&self) {
        let mut forces_before = 0;
        loop {
            let seen = self.work.observe();
            let job = {
                let mut stage = self.stage();
                if stage.stopping || self.poison.is_set() {
                    return;
                }
                // A claimed one is its claimant's, who is awake or will be woken.
                let wanted = if stage.line.claimed {
                    None
                } else {
                    stage.take()
                };
                wanted.or_else(|| stage.take_overflow())
            };
            if let Some(job) = job {
                // A failure is everybody's to see in the poison.
                let _ = self.run(job);
                continue;
            }
            let (pending, now, forces) = {
                let stage = self.stage();
                let line = &stage.line;
                (
                    line.lacks_stamp() && stage.has_space_for_mark(),
                    // While appending goes on, each stamp would force what came since the last.
                    line.stamp_now && !stage.has_staged(),
                    line.forces,
                )
            };
            if pending && (now || forces == forces_before) && matches!(self.write_stamp(), Ok(true))
            {
                continue;
            }
            forces_before = forces;
            if pending {
                // Woken by the clock: nobody who commits pays for waking this thread.
                self.work
                    .sleep(&*self.runtime, seen, Some(self.options.idle_stamp));
                continue;
            }
            self.service_parked.store(true, SeqCst);
            let idle = {
                let stage = self.stage();
                let job = !stage.line.claimed && stage.has_job();
                let stamp = stage.line.lacks_stamp() && stage.has_space_for_mark();
                !job && !stage.has_overflow() && !stamp && !stage.stopping
            };
            if idle {
                self.work.sleep(&*self.runtime, seen, None);
            }
            self.service_parked.store(false, SeqCst);
        }
    }
}
