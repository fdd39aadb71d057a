//! Finding proof that batches are durable: stamps in later batches, and the control file.

use crate::error::{Error, Result};
use crate::names;
use crate::read::remote::follower::{RETRIES, ReadOnlyFollower};
use crate::read::remote::headers::HeaderPosition;
use crate::scan::batch::{LinkedHeader, ScanState};
use crate::scan::resume::Resumptions;
use crate::storage::control_file::ControlFile;
use crate::storage::listing::{Listing, list};
use crate::storage::window::Window;
use logforce_device::{Directory, OpenFile, ReadSource};
use logforce_format::{
    CONTROL_SLOT_LEN, CONTROL_SLOT_OFFSETS, Control, ControlReject, Lsn, newest,
};
use std::sync::Arc;

/// Maximum number of headers per poll.
const HEADERS_PER_POLL: usize = 256;
/// One in so many polls without a result reads past the cache: a direct write racing with a cached
/// read can leave an old page there, which would hide newer batches for ever.
const DIRECT_EVERY: u32 = 8;

impl ReadOnlyFollower {
    /// Searches for new proof; returns whether it found any.
    pub(super) fn find_proof(&mut self) -> Result<bool> {
        self.reload_control()?;
        self.check_front()?;
        if self.headers.tip.at < self.consumed.at {
            self.headers.go_back_to(self.consumed);
        }
        let before = self.headers.proven;
        let medium = self.headers.misses % DIRECT_EVERY == DIRECT_EVERY - 1;
        let unreached = self
            .headers
            .tip
            .epoch
            .is_some_and(|e| e != self.control.epoch);
        if unreached && (self.headers.misses.is_power_of_two() || medium) {
            self.find_resumptions()?;
        }
        // Forgets cached bytes: the writer may have written there since.
        self.headers.window.invalidate();
        self.read_headers(medium)?;
        let HeaderPosition { proven, voids, .. } = &mut self.headers;
        voids.retain(|&(from, to)| {
            let known = to < *proven;
            if known {
                self.voids.add(from, to);
            }
            !known
        });
        let found = self.headers.proven > before;
        self.headers.misses = if found {
            0
        } else {
            self.headers.misses.wrapping_add(1)
        };
        Ok(found)
    }

    /// Reads headers as far as they are linked.
    fn read_headers(&mut self, medium: bool) -> Result<()> {
        let mut past_cache = medium.then(|| Window::new(ReadSource::Medium));
        for _ in 0..HEADERS_PER_POLL {
            self.headers.prove_by_anchor(&self.control);
            if let Some(resumed) = self.headers.resumptions.at(&self.headers.tip) {
                self.headers.tip = resumed;
            }
            self.find_segment_at(self.headers.tip.at)?;
            let read = |window| {
                LinkedHeader::read(window, &self.segments, &self.control, &self.headers.tip)
            };
            let linked = match (read(&mut self.headers.window)?, &mut past_cache) {
                (Err(stop), Some(window)) => match read(window) {
                    Err(e) if e.is_unsupported() => Err(stop),
                    linked => linked?,
                },
                (linked, _) => linked,
            };
            let Ok(linked) = linked else { return Ok(()) };
            let header = &linked.header;
            self.headers.proven = self.headers.proven.max(header.stamp);
            if header.voids() {
                self.headers.voids.push((header.void_from, header.lsn));
            }
            self.headers.tip = ScanState::after(&linked);
        }
        Ok(())
    }

    /// Reads the control file again, and handles what has changed.
    pub(super) fn reload_control(&mut self) -> Result<()> {
        let control = match read_cached_control(&self.dir) {
            Ok(control) => control,
            Err(e @ Error::Io { .. }) => return Err(e),
            // Either the writer is writing both slots, or they are damaged.
            Err(e) => {
                self.headers.control_misses += 1;
                return if self.headers.control_misses > RETRIES {
                    Err(e)
                } else {
                    Ok(())
                };
            }
        };
        self.headers.control_misses = 0;
        if control.log_id != self.control.log_id {
            return Err(Error::NoLog {
                path: self.dir.path().to_owned(),
                why: "another log has replaced the one that was followed".to_owned(),
            });
        }
        if control.sequence == self.control.sequence {
            return Ok(());
        }
        let old = std::mem::replace(&mut self.control, control);
        // The headers up to the anchor were read before it moved: reads them again.
        let anchored = self.control.anchor.lsn;
        let passed = anchored > self.headers.proven && anchored <= self.headers.tip.at;
        if passed && !self.headers.cut {
            self.headers.go_back_to(self.consumed);
        }
        if old.epoch != self.control.epoch {
            self.headers.misses = 0;
            if let Err(e) = self.find_resumptions() {
                // The next poll tries again.
                self.control = old;
                return Err(e);
            }
        }
        Ok(())
    }

    /// Finds where a new opening has continued. It may have dropped batches that were not proven,
    /// continued in a new segment, or given up even durable batches. So this starts again after the
    /// last consumed batch.
    fn find_resumptions(&mut self) -> Result<()> {
        let Some(listing) = self.listed()? else {
            return Ok(());
        };
        let (at, control) = (self.consumed.at, &self.control);
        let above = Resumptions::above(&listing.segments, at, control, ReadSource::Cache)?;
        self.segments = listing.segments;
        self.headers.listed = self.control.sequence;
        self.window.invalidate();
        self.headers.window.invalidate();
        self.headers.go_back_to(self.consumed);
        if let Some(at) = above.cutting(self.consumed.at, &self.control) {
            self.headers.tip = ScanState::unlinked(at);
            self.headers.cut = true;
        }
        self.headers.resumptions = above;
        Ok(())
    }

    /// Lists the segments; `None` if one was renamed or removed meanwhile: the next poll tries
    /// again.
    fn listed(&self) -> Result<Option<Listing>> {
        match list(&self.dir, self.control.log_id) {
            Err(e @ Error::Io { .. }) => Err(e),
            listing => {
                let mut listing = listing.ok().filter(|l| l.vanished.is_none());
                if let Some(listing) = &mut listing {
                    // The next opening may replace segments that the control file does not list.
                    listing.segments.take_from(self.control.prepared_end);
                }
                Ok(listing)
            }
        }
    }

    /// Finds the segment that begins at `at`, if there is one.
    pub(super) fn find_segment_at(&mut self, at: Lsn) -> Result<()> {
        if at >= self.control.prepared_end || self.segments.containing(at).is_some() {
            return Ok(());
        }
        if !self
            .segments
            .add_by_name(&self.dir, self.control.log_id, at)?
            && self.headers.listed != self.control.sequence
            && let Some(listing) = self.listed()?
        {
            // Names are hints only.
            self.headers.listed = self.control.sequence;
            self.segments = listing.segments;
        }
        Ok(())
    }
}

/// Reads the control file through the cache. What it says holds once it is written; whether it is
/// forced matters only to the next opening.
fn read_cached_control(dir: &Arc<dyn Directory>) -> Result<Control> {
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
