//! Search for proof that batches are durable: stamps in later batches, and the control file.

use crate::error::Result;
use crate::read::remote::files::HeaderPosition;
use crate::read::remote::follower::ReadOnlyFollower;
use crate::scan::batch::ScanState;
use crate::scan::resume::Resumptions;
use crate::storage::read_buffer::ReadBuffer;
use logforce_device::ReadSource;

/// Maximum number of headers read per poll.
const HEADERS_PER_POLL: usize = 256;
/// Every `DIRECT_EVERY`th consecutive poll without new proof reads past the cache. A direct write that
/// races with a cached read can leave an old page in the cache, which would hide newer batches forever.
const DIRECT_EVERY: u32 = 8;

impl ReadOnlyFollower {
    /// Searches for new proof; returns whether it found any.
    pub(super) fn find_proof(&mut self) -> Result<bool> {
        self.reload_control()?;
        self.check_front()?;
        if self.headers.tip.at < self.batches.consumed.at {
            self.headers.go_back_to(self.batches.consumed);
        }
        let before = self.headers.proven;
        let medium = self.headers.misses % DIRECT_EVERY == DIRECT_EVERY - 1;
        let unreached = self
            .headers
            .tip
            .epoch
            .is_some_and(|e| e != self.files.control.epoch);
        if unreached && (self.headers.misses.is_power_of_two() || medium) {
            self.find_resumptions()?;
        }
        // Drops buffered bytes: the writer may have written there since they were read.
        self.headers.read_buffer.invalidate();
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

    /// Reads headers as far as they are linked, up to `HEADERS_PER_POLL`.
    fn read_headers(&mut self, medium: bool) -> Result<()> {
        let mut past_cache = medium.then(|| ReadBuffer::new(ReadSource::Medium));
        for _ in 0..HEADERS_PER_POLL {
            self.headers.prove_by_anchor(&self.files.control);
            if let Some(resumed) = self.headers.resumptions.at(&self.headers.tip) {
                self.headers.tip = resumed;
            }
            self.files.find_segment_at(self.headers.tip.at)?;
            let read = |read_buffer| self.files.header_after(read_buffer, &self.headers.tip);
            let linked = match (read(&mut self.headers.read_buffer)?, &mut past_cache) {
                (Err(stop), Some(read_buffer)) => match read(read_buffer) {
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

    /// Reads the control file again, and handles its changes.
    pub(super) fn reload_control(&mut self) -> Result<()> {
        let Some(control) = self.files.changed_control()? else {
            return Ok(());
        };
        if self.note_new_control(&control) {
            return Ok(());
        }
        let old = std::mem::replace(&mut self.files.control, control);
        // The headers up to the new anchor were read before the anchor moved: reads them again.
        let anchored = self.files.control.anchor.lsn;
        let passed = anchored > self.headers.proven && anchored <= self.headers.tip.at;
        if passed && !self.headers.cut {
            self.headers.go_back_to(self.batches.consumed);
        }
        if old.epoch != self.files.control.epoch {
            self.headers.misses = 0;
            if let Err(e) = self.find_resumptions() {
                // The next poll tries again.
                self.files.control = old;
                return Err(e);
            }
        }
        Ok(())
    }

    /// Finds the position at which a new opening has continued the log. That opening may have dropped
    /// unproven batches, or continued in a new segment. If it was a repair, it may have cut even durable
    /// batches. So the headers are read again from the last consumed batch on.
    fn find_resumptions(&mut self) -> Result<()> {
        let Some(listing) = self.files.list()? else {
            return Ok(());
        };
        let (at, control) = (self.batches.consumed.at, &self.files.control);
        let above = Resumptions::above(&listing.segments, at, control, ReadSource::Cache)?;
        self.files.take_listing(listing);
        self.batches.read_buffer.invalidate();
        self.headers.read_buffer.invalidate();
        self.headers.go_back_to(self.batches.consumed);
        if let Some(at) = above.cutting(self.batches.consumed.at, &self.files.control) {
            self.headers.tip = ScanState::unlinked(at);
            self.headers.cut = true;
        }
        self.headers.resumptions = above;
        Ok(())
    }
}
