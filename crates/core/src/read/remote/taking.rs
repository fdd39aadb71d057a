//! Reading whole batches below what is proven.

use crate::error::{Error, Result};
use crate::read::remote::follower::{LOOK_AGAIN, ReadOnlyFollower};
use crate::scan::batch::{Head, ScanState, Step, Stop};
use crate::scan::end_of_log::damage;
use crate::storage::control_file::{ControlFile, Loaded};
use crate::storage::window::Window;
use logforce_device::ReadSource;
use logforce_format::{BatchKind, Control, Lsn, RecoveryCase, Seen, decide};

impl ReadOnlyFollower {
    /// Takes the next batch that is proven; `false` if there is none, or none to be had now.
    pub(super) fn take_batch(&mut self) -> Result<bool> {
        if let Some((_, to)) = self.voids.covering(self.taken.at) {
            // What lies there need not even be readable any more.
            self.records.drop_begun();
            self.taken = ScanState::behind_void(to);
            return Ok(true);
        }
        if self.taken.at >= self.ahead.proven {
            return Ok(false);
        }
        self.learn_segment(self.taken.at)?;
        match self.try_take(ReadSource::Cache)? {
            Ok(()) => {}
            Err(stop) => match self.try_harder(&stop)? {
                Ok(()) => {}
                Err(stop) => return self.cannot_take(&stop).map(|()| false),
            },
        }
        self.doubts = 0;
        // Their files may be gone; an open handle would keep the space.
        self.segments.take_below(self.taken.at);
        Ok(true)
    }

    /// What was read ahead may be older than what was written since; and a direct write racing with
    /// a cached read can leave an old page in the cache.
    fn try_harder(&mut self, first: &Stop) -> Step<()> {
        self.window.invalidate();
        if first.seen == Seen::Malformed {
            return Ok(Err(first.clone()));
        }
        let stop = match self.try_take(ReadSource::Cache)? {
            Ok(()) => return Ok(Ok(())),
            Err(stop) => stop,
        };
        match self.try_take(ReadSource::Medium) {
            Err(e) if e.is_unsupported() => Ok(Err(stop)),
            answer => answer,
        }
    }

    fn try_take(&mut self, source: ReadSource) -> Step<()> {
        let mut medium = Window::new(ReadSource::Medium);
        let window = match source {
            ReadSource::Cache => &mut self.window,
            ReadSource::Medium => &mut medium,
        };
        window.limit(self.ahead.proven.since(self.taken.at));
        let head = match Head::read(window, &self.segments, &self.control, &self.taken)? {
            Ok(head) => head,
            Err(stop) => return Ok(Err(stop)),
        };
        let next = match head.check(window, self.taken)? {
            Ok(next) => next,
            Err(stop) => return Ok(Err(stop)),
        };
        let h = &head.header;
        if h.kind == BatchKind::Epoch && h.lsn < self.from && h.epoch.counter > self.began.counter {
            // It began above what was proven, and a recovery has cut there.
            return Ok(Err(Stop {
                at: h.lsn,
                seen: Seen::PastEnd,
                found: "the log was cut below where this began".to_owned(),
            }));
        }
        let payload = match head.payload(window)? {
            Ok(payload) => payload,
            Err(stop) => return Ok(Err(stop)),
        };
        let taken = self
            .records
            .take(&head.header, payload, self.from, &self.voids);
        if let Err(m) = taken {
            return Ok(Err(Stop {
                at: m.0,
                seen: Seen::Malformed,
                found: "the frame here does not fit".to_owned(),
            }));
        }
        self.taken = next;
        Ok(Ok(()))
    }

    /// A batch that was durable cannot be read: it was truncated, or given up by an opening that
    /// found it damaged, or it is damaged.
    fn cannot_take(&mut self, stop: &Stop) -> Result<()> {
        if stop.seen == Seen::PastEnd && stop.at < self.from {
            return Err(Error::BeyondEnd {
                lsn: self.from,
                end: stop.at,
            });
        }
        let at = self.taken.at;
        self.look_at_control()?;
        self.check_front()?;
        if self.ahead.gives_up(at) {
            // Known to be void once that is proven.
            return Ok(());
        }
        self.doubts += 1;
        if self.doubts <= LOOK_AGAIN {
            return Ok(());
        }
        let case = match decide(stop.seen, true, false) {
            RecoveryCase::Next => RecoveryCase::Damaged,
            case => case,
        };
        let (path, proven) = (self.dir.path(), self.ahead.proven);
        let mut damage = damage(path, &self.segments, stop, case, proven);
        damage.in_reading = true;
        Err(Error::Damaged(Box::new(damage)))
    }

    /// Fails if what comes next was truncated with its segment.
    pub(super) fn check_front(&self) -> Result<()> {
        let at = self.taken.at;
        if at >= self.control.first_segment || self.voids.covering(at).is_some() {
            return Ok(());
        }
        self.confirm_front(at, |c| c.first_segment)
    }

    /// Fails if the control file on the medium says as well that what lies at `lsn` was truncated:
    /// the cache may show a change that a failure has kept from becoming durable.
    pub(super) fn confirm_front(&self, lsn: Lsn, front: impl Fn(&Control) -> Lsn) -> Result<()> {
        match ControlFile::load(&self.dir) {
            Ok(Loaded { control, .. }) if lsn < front(&control) => Err(Error::Truncated {
                lsn: lsn.max(self.shown.end()),
                front: control.front,
            }),
            Err(e @ Error::Io { .. }) if !e.is_not_found() => Err(e),
            _ => Ok(()),
        }
    }
}
