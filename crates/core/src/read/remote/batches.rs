//! Reading of whole batches, up to the proven LSN.

use crate::error::{Error, Result};
use crate::read::remote::displaced::contradicts;
use crate::read::remote::follower::{RETRIES, ReadOnlyFollower};
use crate::scan::batch::{ScanResult, ScanState, Stop};
use crate::scan::end_of_log::damage;
use crate::storage::control_file::{ControlFile, Loaded};
use crate::storage::read_buffer::ReadBuffer;
use logforce_device::ReadSource;
use logforce_format::{BatchKind, Control, Lsn, NextBatch, RecoveryCase, decide};

impl ReadOnlyFollower {
    /// Consumes the next proven batch. Returns `false` if there is none, or if it cannot be read now.
    pub(super) fn consume_batch(&mut self) -> Result<bool> {
        if let Some((_, to)) = self.voids.covering(self.batches.consumed.at) {
            // A void range need not be readable.
            self.batches.records.drop_begun();
            self.batches.consumed = ScanState::after_void(to);
            self.batches.is_voided = true;
            return Ok(true);
        }
        if self.batches.consumed.at >= self.headers.proven {
            return Ok(false);
        }
        self.files.find_segment_at(self.batches.consumed.at)?;
        match self.try_consume(ReadSource::Cache)? {
            Ok(()) => {}
            Err(stop) => match self.retry_consume(&stop)? {
                Ok(()) => {}
                Err(stop) => return self.explain_unreadable(&stop).map(|()| false),
            },
        }
        self.batches.retries = 0;
        // Closes the files below. If they were truncated, an open handle would keep their space in use.
        self.files.segments.take_below(self.batches.consumed.at);
        Ok(true)
    }

    /// Reads again, then past the cache. Bytes that were read ahead may be older than a later write, and a
    /// direct write that races with a cached read can leave an old page in the cache.
    fn retry_consume(&mut self, first: &Stop) -> ScanResult<()> {
        self.batches.read_buffer.invalidate();
        if first.seen == NextBatch::Malformed {
            return Ok(Err(first.clone()));
        }
        let stop = match self.try_consume(ReadSource::Cache)? {
            Ok(()) => return Ok(Ok(())),
            Err(stop) => stop,
        };
        match self.try_consume(ReadSource::Medium) {
            Err(e) if e.is_unsupported() => Ok(Err(stop)),
            answer => answer,
        }
    }

    fn try_consume(&mut self, source: ReadSource) -> ScanResult<()> {
        let expected = self.expected_epoch();
        let mut medium = ReadBuffer::new(ReadSource::Medium);
        let read_buffer = match source {
            ReadSource::Cache => &mut self.batches.read_buffer,
            ReadSource::Medium => &mut medium,
        };
        read_buffer.limit(self.headers.proven.since(self.batches.consumed.at));
        let linked = match self
            .files
            .header_after(read_buffer, &self.batches.consumed)?
        {
            Ok(linked) => linked,
            Err(stop) => return Ok(Err(stop)),
        };
        let is_expected = |epoch| linked.header.voids() && linked.header.epoch == epoch;
        if !expected.is_none_or(is_expected)
            || !self.location.just_begun
                && contradicts(&self.voids, &linked.header, ScanState::after(&linked).at)
        {
            // Otherwise the follower might continue in the history of a copy. It would never return other
            // records of the copy, or its caller would keep records that the copy has voided.
            return match self.begin_anew(false)? {
                true => Ok(Ok(())),
                false => Ok(Err(Stop {
                    at: linked.header.lsn,
                    seen: NextBatch::Malformed,
                    found: "the log was changed while it was read".to_owned(),
                })),
            };
        }
        let next = match linked.check(read_buffer, self.batches.consumed)? {
            Ok(next) => next,
            Err(stop) => return Ok(Err(stop)),
        };
        let h = &linked.header;
        if h.kind == BatchKind::Epoch
            && h.lsn < self.start.from
            && h.epoch.counter > self.start.epoch.counter
        {
            // This follower began above the proven LSN, and a recovery has dropped the records there.
            return Ok(Err(Stop {
                at: h.lsn,
                seen: NextBatch::PastEnd,
                found: "recovery ended the log below the position where this follower began"
                    .to_owned(),
            }));
        }
        let payload = match linked.payload(read_buffer)? {
            Ok(payload) => payload,
            Err(stop) => return Ok(Err(stop)),
        };
        let taken =
            self.batches
                .records
                .take(&linked.header, payload, self.start.from, &self.voids);
        if let Err(m) = taken {
            return Ok(Err(Stop {
                at: m.0,
                seen: NextBatch::Malformed,
                found: "the frame is invalid, or cannot follow the frame before it".to_owned(),
            }));
        }
        let below = std::mem::replace(&mut self.batches.consumed, next).at;
        let last_byte = Lsn(self.batches.consumed.at.0 - 1);
        self.batches.is_voided = self.voids.covering(last_byte).is_some();
        self.batches.last = Some((linked.header.lsn, linked.header.crc));
        let (history, voids) = (&mut self.batches.history, &self.voids);
        history.note_batch(&linked.header, below, voids);
        self.note_epoch(linked.header.epoch);
        Ok(Ok(()))
    }

    /// Decides why a durable batch cannot be read: it was truncated, or a repair has cut it, or it is
    /// damaged. Returns `Ok` if the next poll should try again.
    fn explain_unreadable(&mut self, stop: &Stop) -> Result<()> {
        if stop.seen == NextBatch::PastEnd && stop.at < self.start.from {
            return Err(Error::Diverged {
                path: self.files.dir.path().to_owned(),
                lsn: self.start.from,
                from: stop.at,
            });
        }
        let at = self.batches.consumed.at;
        self.reload_control()?;
        self.check_front()?;
        if self.headers.has_pending_void(at) {
            // The range counts as void once the batch that voids it is proven.
            return Ok(());
        }
        self.batches.retries += 1;
        if self.batches.retries <= RETRIES {
            return Ok(());
        }
        let case = match decide(stop.seen, true, false) {
            RecoveryCase::Next => RecoveryCase::Damaged,
            case => case,
        };
        let (path, proven) = (self.files.dir.path(), self.headers.proven);
        let mut damage = damage(path, &self.files.segments, stop, case, proven);
        damage.in_reading = true;
        Err(Error::Damaged(Box::new(damage)))
    }

    /// Fails if the next batch was truncated with its segment.
    pub(super) fn check_front(&self) -> Result<()> {
        let at = self.batches.consumed.at;
        if at >= self.files.control.first_segment || self.voids.covering(at).is_some() {
            return Ok(());
        }
        self.confirm_front(at, |c| c.first_segment)
    }

    /// Fails if the control file on the medium confirms that `lsn` was truncated. The cache may hold a
    /// change that never became durable, because the writer failed.
    pub(super) fn confirm_front(&self, lsn: Lsn, front: impl Fn(&Control) -> Lsn) -> Result<()> {
        match ControlFile::load(&self.files.dir) {
            Ok(Loaded { control, .. }) if lsn < front(&control) => Err(Error::Truncated {
                lsn: lsn.max(self.position.end()),
                front: control.front,
            }),
            Err(e @ Error::Io { .. }) if !e.is_not_found() => Err(e),
            _ => Ok(()),
        }
    }
}
