//! The log's own writing thread: writes batches that fill up while nobody forces, and puts down
//! stamps.

use crate::log::Shared;
use crate::writer::How;
use std::sync::atomic::Ordering::*;

impl Shared {
    /// The body of the thread `logforce-write`.
    pub(crate) fn serve(&self) {
        let mut forces_before = 0;
        loop {
            let seen = self.work.observe();
            let claimed = {
                let mut stage = self.stage();
                if stage.stopping || self.poison.is_set() {
                    return;
                }
                match stage.role.take() {
                    Some(role) => match stage.take_full() {
                        Some(batch) => Some((role, batch)),
                        None => {
                            stage.role = Some(role);
                            None
                        }
                    },
                    None => None,
                }
            };
            if let Some((role, batch)) = claimed {
                // A failure is everybody's to see in the poison.
                let _ = self.write_out(role, vec![batch], How::Write);
                continue;
            }
            let (pending, now, forces) = {
                let stage = self.stage();
                (
                    stage.forces != stage.stamped_forces,
                    stage.stamp_now,
                    stage.forces,
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
            } else {
                self.service_parked.store(true, SeqCst);
                let idle = {
                    let stage = self.stage();
                    // While somebody else holds the role there is nothing to do here: giving it
                    // back rings.
                    let claimable = stage.has_full() && stage.role.is_some();
                    stage.forces == stage.stamped_forces && !claimable && !stage.stopping
                };
                if idle {
                    self.work.sleep(&*self.runtime, seen, None);
                }
                self.service_parked.store(false, SeqCst);
            }
        }
    }
}
