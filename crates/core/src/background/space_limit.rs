//! The cap on the log's size, and the requests for checkpoints that free space before it is reached.
//!
//! The preallocator checks the cap before it prepares a segment.

use crate::engine::Engine;
use crate::error::Error;
use crate::read::boundary::boundary_at_or_after_segment;
use crate::storage::builder::Made;
use crate::types::CheckpointDue;
use logforce_format::Lsn;

/// Decision on whether another segment may be prepared.
pub(crate) enum SpaceDecision {
    Ready,
    /// The cap allows none now, and no append needs one yet.
    Later,
    Full(Error),
}

/// Use of the cap, bytes.
struct Usage {
    used: u64,
    /// Bytes that another segment would add; 0 if it would reuse a spare.
    need: u64,
    limit: u64,
}

impl Usage {
    fn fits(&self) -> bool {
        self.used.saturating_add(self.need) <= self.limit
    }
}

impl Engine {
    fn usage(&self) -> Option<Usage> {
        let limit = self.config.options.max_log_size?;
        let wanted = self.next_segment_len(0);
        // Segments first, then retired files: a file that is retired in between is counted twice at worst,
        // and never missed.
        let segments = self.view.segments().bytes();
        let retired = self.files.retired.bytes();
        let spares = self.files.spares();
        let reused = spares.iter().any(|s| self.config.sizes.fits(s.len, wanted));
        Some(Usage {
            used: segments + retired + spares.iter().map(|s| s.len).sum::<u64>(),
            need: if reused { 0 } else { wanted },
            limit,
        })
    }

    /// Returns true if the cap allows one more segment besides those in `made`, which the usage does not
    /// include yet.
    pub(crate) fn has_room_beside(&self, made: &[Made]) -> bool {
        let made: u64 = made.iter().map(|m| m.segment.header.len).sum();
        self.usage().is_none_or(|usage| {
            let used = usage.used.saturating_add(made);
            Usage { used, ..usage }.fits()
        })
    }

    /// Decides whether the cap allows another segment after `end`. `demanded`: an append waits for it.
    pub(crate) fn decide_space(&self, end: Lsn, demanded: bool) -> SpaceDecision {
        if let Err(behind) = self.check_replica_limit() {
            return match demanded {
                true => SpaceDecision::Full(behind),
                false => SpaceDecision::Later,
            };
        }
        self.remove_surplus_spares();
        let Some(usage) = self.usage().filter(|u| !u.fits()) else {
            return SpaceDecision::Ready;
        };
        if !demanded {
            self.request_early(end, true, &usage);
            return SpaceDecision::Later;
        }
        // Breaks pins, the oldest first, before it refuses an append.
        let mut usage = usage;
        while self.pins.break_oldest_pin() {
            if self.move_front().is_err() {
                break;
            }
            match self.usage().filter(|u| !u.fits()) {
                Some(now) => usage = now,
                None => return SpaceDecision::Ready,
            }
        }
        self.request_checkpoint(&usage);
        SpaceDecision::Full(Error::Full {
            path: self.view.path.clone(),
            used: usage.used,
            need: usage.need,
            limit: usage.limit,
        })
    }

    /// Requests a checkpoint before space runs out.
    pub(crate) fn request_before_full(&self, end: Lsn) {
        if let Some(usage) = self.usage()
            && !usage.fits()
        {
            self.request_early(end, false, &usage);
        }
    }

    /// Requests a checkpoint once for each segment, and again when the segment is `in_use`.
    fn request_early(&self, end: Lsn, in_use: bool, usage: &Usage) {
        let requested = self.state().segments.requested_at(end, in_use);
        if !requested {
            self.request_checkpoint(usage);
        }
    }

    /// Requests a checkpoint, unless a request with the same usage has not been taken yet.
    fn request_checkpoint(&self, usage: &Usage) {
        let waits = self.view.pending_checkpoint().as_ref().map(|due| due.used);
        if waits == Some(usage.used) {
            return;
        }
        let due = self.checkpoint_due(usage);
        // An empty log cannot free space: truncated segments are being removed already.
        if due.truncate_to > due.front || self.state().tail() > due.front {
            self.view.post_checkpoint(due);
        }
    }

    fn checkpoint_due(&self, usage: &Usage) -> CheckpointDue {
        let mut short = (usage.used + usage.need).saturating_sub(usage.limit);
        let (front, durable) = (self.front(), self.durable());
        let mut truncate_to = durable;
        let segments = self.view.segments().all();
        // Segments below the front do not count: they are being removed, or a truncation could not remove
        // them.
        for segment in segments.iter().filter(|s| s.header.end() > front) {
            short = short.saturating_sub(segment.header.len);
            if short == 0 {
                let end = segment.header.end().min(durable);
                // If the boundary cannot be read, the owner's truncation reports the error.
                truncate_to = boundary_at_or_after_segment(&self.view, end).unwrap_or(end);
                break;
            }
        }
        CheckpointDue {
            log_id: self.view.log_id,
            path: self.view.path.clone(),
            front,
            durable: durable.max(truncate_to),
            used: usage.used,
            limit: usage.limit,
            truncate_to,
        }
    }

    /// Removes spares while the cap is exceeded, because spares count as well. Keeps the one that the next
    /// segment reuses.
    fn remove_surplus_spares(&self) {
        while let Some(usage) = self.usage().filter(|u| !u.fits()) {
            let spare = {
                let mut spares = self.files.spares();
                if spares.len() <= usize::from(usage.need == 0) {
                    return;
                }
                spares.pop()
            };
            let removed = spare.map(|s| self.view.dir.remove(&s.name));
            if removed.is_some_and(|r| r.is_err()) {
                return;
            }
        }
    }
}
