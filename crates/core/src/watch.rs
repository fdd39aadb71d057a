//! Whether the log is still where it was opened.
//!
//! Files that are open stay writable when somebody removes them, or the directory they are in: the
//! system goes on saying that all is forced, and nobody will ever find it. So the log looks by name:
//! [`EVERY`] while something is written, and before a segment comes into use, a stamp, a change of
//! the control file, and the end.

use crate::commit::Line;
use crate::log::Shared;
use crate::segments::Segment;
use crate::{Error, Result, names};
use logforce_device::sync::{AtomicBool, Mutex, MutexGuard};
use logforce_device::{Directory, FileIdentity, Whereabouts};
use logforce_format::Lsn;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering::Release;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// How often at most, and at least while commits go on. What is acknowledged after the log was taken
/// away is acknowledged for no longer than this.
pub(crate) const EVERY: Duration = Duration::from_millis(500);

/// What the files were when they were opened, by their names.
pub(crate) struct Watch {
    control: Option<FileIdentity>,
    /// Without it another process could lock, and write, the same log.
    lock: Option<FileIdentity>,
    /// Those that are written to, or will be, by their starts.
    segments: Mutex<BTreeMap<Lsn, Option<FileIdentity>>>,
    /// The end of the log when it was opened.
    opened_at: Lsn,
    /// The writing thread sleeps, and is to be told of what lands.
    pub(crate) parked: AtomicBool,
}

impl Watch {
    /// To be called once all of them are open.
    pub(crate) fn new<'a>(
        dir: &Arc<dyn Directory>,
        segments: impl Iterator<Item = &'a Arc<Segment>>,
        opened_at: Lsn,
    ) -> Self {
        let watch = Watch {
            control: dir.identity_of(names::CONTROL).ok(),
            lock: dir.identity_of(names::LOCK).ok(),
            segments: Mutex::default(),
            opened_at,
            parked: AtomicBool::new(false),
        };
        for segment in segments {
            watch.add(dir, segment);
        }
        watch
    }

    fn segments(&self) -> MutexGuard<'_, BTreeMap<Lsn, Option<FileIdentity>>> {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A segment was made, and will be written to.
    pub(crate) fn add(&self, dir: &Arc<dyn Directory>, segment: &Segment) {
        let identity = dir.identity_of(&segment.name()).ok();
        self.segments().insert(segment.header.start, identity);
    }

    /// Those that are not full and forced yet.
    fn in_use(&self, durable: Lsn) -> Vec<(Lsn, Option<FileIdentity>)> {
        let mut segments = self.segments();
        let first = segments.range(..=durable).next_back();
        if let Some(first) = first.map(|(start, _)| *start) {
            *segments = segments.split_off(&first);
        }
        segments.iter().map(|(start, id)| (*start, *id)).collect()
    }
}

/// What the writing thread remembers of its last look.
pub(crate) struct LastLook {
    /// How far the log was written and durable.
    landed: (Lsn, Lsn),
    at: Option<Duration>,
}

/// When to look next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// Not before something lands.
    No,
    At(Duration),
    Now,
}

impl LastLook {
    /// The opening itself, by which nothing had landed.
    pub(crate) fn new(watch: &Watch) -> Self {
        LastLook {
            landed: (watch.opened_at, watch.opened_at),
            at: None,
        }
    }

    /// When to look. If it is due, that counts as done.
    pub(crate) fn due(&mut self, line: &Line, now: Duration) -> Due {
        let landed = (line.written(), line.durable());
        match self.at.map(|at| at.saturating_add(EVERY)) {
            // Also where nothing has landed since: who commits next need not wake the thread.
            Some(next) if next > now => Due::At(next),
            _ if landed == self.landed => Due::No,
            _ => {
                self.landed = landed;
                self.at = Some(now);
                Due::Now
            }
        }
    }
}

impl Shared {
    /// Fails the log if it is not where it was opened any more.
    pub(crate) fn look_for_itself(&self) -> Result<()> {
        self.poison.check()?;
        match self.displaced() {
            Some(found) => Err(self.fail(Error::Displaced {
                path: self.path.clone(),
                found,
            })),
            None => Ok(()),
        }
    }

    /// What has become of it, if it was displaced. Only what the system says of names counts: that
    /// it has no descriptors or denies a right says nothing of the log.
    fn displaced(&self) -> Option<String> {
        match self.dir.whereabouts() {
            Ok(Whereabouts::Here) | Err(_) => {}
            Ok(Whereabouts::Gone) => {
                return Some("the directory was deleted or moved away".to_owned());
            }
            Ok(Whereabouts::Replaced) => {
                return Some(
                    "another directory is there: the log's was deleted or moved away".to_owned(),
                );
            }
        }
        let files = [
            (names::CONTROL, self.watch.control),
            (names::LOCK, self.watch.lock),
        ];
        for (name, known) in files {
            if let Some(what) = self.became_of(name, known) {
                return Some(format!("its file '{name}' was {what}"));
            }
        }
        for (start, known) in self.watch.in_use(self.durable()) {
            let segment = self.segments().containing(start);
            let name = segment.as_ref().map(|s| s.name());
            let (Some(segment), Some(name)) = (segment, name) else {
                continue;
            };
            let Some(what) = self.became_of(&name, known) else {
                continue;
            };
            // Unless the log itself has filled it meanwhile, and a truncation given it another name.
            let now = self.segments().containing(start);
            if now.is_some_and(|now| Arc::ptr_eq(&now, &segment)) {
                return Some(format!("its segment '{name}' was {what}"));
            }
        }
        None
    }

    fn became_of(&self, name: &str, known: Option<FileIdentity>) -> Option<&'static str> {
        match self.dir.identity_of(name) {
            Ok(now) => known
                .is_some_and(|known| known != now)
                .then_some("replaced by another"),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Some("deleted or renamed"),
            Err(_) => None,
        }
    }

    /// The writing thread will not look before something lands. Under the log's mutex, so that
    /// whoever lands the next write sees it.
    pub(crate) fn park_watch(&self) {
        self.watch.parked.store(true, Release);
    }
}
