//! Looking for proof: the stamps of the batches behind what was taken, and the control file.

use crate::error::{Error, Result};
use crate::names;
use crate::read::remote::follower::{LOOK_AGAIN, ReadOnlyFollower};
use crate::read::remote::tip::Ahead;
use crate::scan::batch::{Head, ScanState};
use crate::scan::resume::Resumptions;
use crate::storage::control_file::ControlFile;
use crate::storage::listing::{Listing, list};
use crate::storage::window::Window;
use logforce_device::{Directory, OpenFile, ReadSource};
use logforce_format::{
    CONTROL_SLOT_LEN, CONTROL_SLOT_OFFSETS, Control, ControlReject, Lsn, newest,
};
use std::sync::Arc;

/// Headers that are read in one look.
const HOPS: usize = 256;
/// Every so many looks in vain, one goes past the cache: a direct write racing with a cached read
/// can leave an old page there, which would hide what is new for ever.
const PAST_CACHE: u32 = 8;

impl ReadOnlyFollower {
    /// Looks for new proof; answers whether it found some.
    pub(super) fn look_ahead(&mut self) -> Result<bool> {
        self.look_at_control()?;
        self.check_front()?;
        if self.ahead.tip.at < self.taken.at {
            self.ahead.go_back_to(self.taken);
        }
        let before = self.ahead.proven;
        let medium = self.ahead.in_vain % PAST_CACHE == PAST_CACHE - 1;
        let unreached = self
            .ahead
            .tip
            .epoch
            .is_some_and(|e| e != self.control.epoch);
        if unreached && (self.ahead.in_vain.is_power_of_two() || medium) {
            self.find_resumptions()?;
        }
        // What was read lately may have been written since.
        self.ahead.window.invalidate();
        self.hop(medium)?;
        let Ahead { proven, voids, .. } = &mut self.ahead;
        voids.retain(|&(from, to)| {
            let known = to < *proven;
            if known {
                self.voids.add(from, to);
            }
            !known
        });
        let found = self.ahead.proven > before;
        self.ahead.in_vain = if found {
            0
        } else {
            self.ahead.in_vain.wrapping_add(1)
        };
        Ok(found)
    }

    /// Goes from header to header as far as they are linked.
    fn hop(&mut self, medium: bool) -> Result<()> {
        let mut past_cache = medium.then(|| Window::new(ReadSource::Medium));
        for _ in 0..HOPS {
            self.ahead.prove_by_anchor(&self.control);
            if let Some(resumed) = self.ahead.resumptions.at(&self.ahead.tip) {
                self.ahead.tip = resumed;
            }
            self.learn_segment(self.ahead.tip.at)?;
            let read = |window| Head::read(window, &self.segments, &self.control, &self.ahead.tip);
            let head = match (read(&mut self.ahead.window)?, &mut past_cache) {
                (Err(stop), Some(window)) => match read(window) {
                    Err(e) if e.is_unsupported() => Err(stop),
                    head => head?,
                },
                (head, _) => head,
            };
            let Ok(head) = head else { return Ok(()) };
            let header = &head.header;
            self.ahead.proven = self.ahead.proven.max(header.stamp);
            if header.voids() {
                self.ahead.voids.push((header.void_from, header.lsn));
            }
            self.ahead.tip = ScanState::behind(&head);
        }
        Ok(())
    }

    /// Reads the control file, and takes note of what changed in it.
    pub(super) fn look_at_control(&mut self) -> Result<()> {
        let control = match peek(&self.dir) {
            Ok(control) => control,
            Err(e @ Error::Io { .. }) => return Err(e),
            // Both slots in the middle of being written, as it seems; or they are damaged.
            Err(e) => {
                self.ahead.blind += 1;
                return if self.ahead.blind > LOOK_AGAIN {
                    Err(e)
                } else {
                    Ok(())
                };
            }
        };
        self.ahead.blind = 0;
        if control.log_id != self.control.log_id {
            return Err(Error::NoLog {
                path: self.dir.path().to_owned(),
                why: "another log was put in the place of the one that was followed".to_owned(),
            });
        }
        if control.sequence == self.control.sequence {
            return Ok(());
        }
        let old = std::mem::replace(&mut self.control, control);
        // Headers up to the anchor were read before it came there: they are read again.
        let anchored = self.control.anchor.lsn;
        let passed = anchored > self.ahead.proven && anchored <= self.ahead.tip.at;
        if passed && !self.ahead.cut {
            self.ahead.go_back_to(self.taken);
        }
        if old.epoch != self.control.epoch {
            self.ahead.in_vain = 0;
            if let Err(e) = self.find_resumptions() {
                // Asked for again at the next look.
                self.control = old;
                return Err(e);
            }
        }
        Ok(())
    }

    /// A new opening may have cut what was not proven, gone on in a segment of its own, or given up
    /// even what was durable once. So it starts again from what was taken.
    fn find_resumptions(&mut self) -> Result<()> {
        let Some(listing) = self.listed()? else {
            return Ok(());
        };
        let (at, control) = (self.taken.at, &self.control);
        let above = Resumptions::above(&listing.segments, at, control, ReadSource::Cache)?;
        self.segments = listing.segments;
        self.ahead.listed = self.control.sequence;
        self.window.invalidate();
        self.ahead.window.invalidate();
        self.ahead.go_back_to(self.taken);
        if let Some(at) = above.cutting(self.taken.at, &self.control) {
            self.ahead.tip = ScanState::unlinked(at);
            self.ahead.cut = true;
        }
        self.ahead.resumptions = above;
        Ok(())
    }

    /// The segments, unless one went under its feet: then there is another time.
    fn listed(&self) -> Result<Option<Listing>> {
        match list(&self.dir, self.control.log_id) {
            Err(e @ Error::Io { .. }) => Err(e),
            listing => {
                let mut listing = listing.ok().filter(|l| l.overtaken.is_none());
                if let Some(listing) = &mut listing {
                    // The next opening may put others in their place.
                    listing.segments.take_from(self.control.prepared_end);
                }
                Ok(listing)
            }
        }
    }

    /// Gets to know the segment that begins at `at`, if one does.
    pub(super) fn learn_segment(&mut self, at: Lsn) -> Result<()> {
        if at >= self.control.prepared_end || self.segments.containing(at).is_some() {
            return Ok(());
        }
        if !self.segments.learn(&self.dir, self.control.log_id, at)?
            && self.ahead.listed != self.control.sequence
            && let Some(listing) = self.listed()?
        {
            // Names are hints only.
            self.ahead.listed = self.control.sequence;
            self.segments = listing.segments;
        }
        Ok(())
    }
}

/// The control file as the cache has it. What it says is true when it is written; whether it was
/// forced matters to the next opening only.
fn peek(dir: &Arc<dyn Directory>) -> Result<Control> {
    let path = dir.path().join(names::CONTROL);
    let file = dir
        .open(names::CONTROL, OpenFile::READ)
        .map_err(Error::io("open", &path))?;
    let slots = CONTROL_SLOT_OFFSETS.map(|offset| {
        let mut slot = vec![0; CONTROL_SLOT_LEN];
        match file.read_at(offset, &mut slot, ReadSource::Cache) {
            Ok(n) if n == CONTROL_SLOT_LEN => Control::decode(&slot),
            _ => Err(ControlReject::Magic),
        }
    });
    match newest(slots) {
        Ok((_, control)) => Ok(control),
        Err(_) => ControlFile::load(dir).map(|loaded| loaded.control),
    }
}
