//! A group commit of a file as people write it by hand: each thread writes its bytes, takes a ticket, and
//! leads one `fdatasync` for all tickets, or waits for the leader. One mutex and one condition variable.

use logforce_device::{AlignedBuf, Barrier, File, Write};
use logforce_measure::MeasureError;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Writes the first `len` bytes of `buf` at `offset`, and returns the buffer.
pub(super) fn write(
    file: &dyn File,
    buf: AlignedBuf,
    len: usize,
    offset: u64,
) -> (AlignedBuf, std::io::Result<()>) {
    let done = file.complete(file.submit(Write {
        offset,
        buf,
        range: 0..len,
        through: false,
    }));
    (done.buf, done.result)
}

/// A file whose committers share syncs.
pub struct ByHand {
    file: Arc<dyn File>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Number of completed writes: the last ticket.
    written: u64,
    /// Last ticket that is durable.
    durable: u64,
    is_syncing: bool,
    /// First error. No commit is acknowledged after it.
    failed: Option<String>,
}

impl ByHand {
    /// Returns a group commit of `file`.
    pub fn new(file: Arc<dyn File>) -> ByHand {
        ByHand {
            file,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the first `len` bytes of `buf` at `offset`; returns the buffer when they are durable.
    pub fn commit(
        &self,
        buf: AlignedBuf,
        len: usize,
        offset: u64,
    ) -> Result<AlignedBuf, MeasureError> {
        let (buf, written) = write(&*self.file, buf, len, offset);
        let mut state = self.lock();
        if let Err(e) = written {
            self.fail(&mut state, format!("the write: {e}"));
        }
        // Only a completed write has a ticket: the sync in flight need not cover this one.
        state.written += 1;
        let ticket = state.written;
        loop {
            if let Some(why) = &state.failed {
                return Err(MeasureError::NotOffered(why.clone()));
            }
            if state.durable >= ticket {
                return Ok(buf);
            }
            if state.is_syncing {
                let waited = self.changed.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.is_syncing = true;
            let covers = state.written;
            drop(state);
            let synced = self.file.barrier(Barrier::Data);
            state = self.lock();
            state.is_syncing = false;
            match synced {
                Ok(()) => state.durable = covers,
                Err(e) => self.fail(&mut state, format!("the sync: {e}")),
            }
            self.changed.notify_all();
        }
    }

    fn fail(&self, state: &mut State, why: String) {
        state.failed.get_or_insert(why);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logforce_device::{ForwardFile, OpenFile, System};
    use logforce_device_os::OsSystem;
    use std::io;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    /// A file that counts its calls. One sync fails, and later ones would succeed.
    struct Failing {
        inner: Arc<dyn File>,
        writes: AtomicU64,
        syncs: AtomicU64,
        fails_at: u64,
    }

    impl ForwardFile for Failing {
        fn inner(&self) -> &dyn File {
            &*self.inner
        }

        fn complete(&self, ticket: logforce_device::Ticket) -> logforce_device::Completion {
            self.writes.fetch_add(1, SeqCst);
            self.inner.complete(ticket)
        }

        fn barrier(&self, _: Barrier) -> io::Result<()> {
            match self.syncs.fetch_add(1, SeqCst) == self.fails_at {
                true => Err(io::Error::other("planned")),
                false => Ok(()),
            }
        }
    }

    /// Runs 4 threads of 50 commits; returns the file and the number of acknowledged commits.
    fn run(fails_at: u64) -> (Arc<Failing>, u64) {
        let program = std::env::current_exe().unwrap();
        let dir = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
        let place = OsSystem::new().directory(dir.path()).unwrap();
        let file = Arc::new(Failing {
            inner: place.open("journal", OpenFile::CREATE).unwrap(),
            writes: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            fails_at,
        });
        let by_hand = ByHand::new(file.clone());
        let acknowledged = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (by_hand, acknowledged) = (&by_hand, &acknowledged);
                scope.spawn(move || {
                    for n in 0..50 {
                        let buf = AlignedBuf::zeroed(512, 512);
                        let done = by_hand.commit(buf, 512, (thread * 50 + n) * 512);
                        acknowledged.fetch_add(u64::from(done.is_ok()), SeqCst);
                    }
                });
            }
        });
        (file, acknowledged.into_inner())
    }

    #[test]
    fn every_commit_shares_a_sync_or_leads_one() {
        let (file, acknowledged) = run(u64::MAX);
        assert_eq!((acknowledged, file.writes.load(SeqCst)), (200, 200));
        assert!((1..=200).contains(&file.syncs.load(SeqCst)));
    }

    #[test]
    fn nothing_is_acknowledged_after_a_failed_sync() {
        let (file, acknowledged) = run(3);
        assert_eq!(file.syncs.load(SeqCst), 4);
        // Each of the three syncs before covers at most one commit of each thread.
        assert!(acknowledged <= 12, "{acknowledged}");
    }
}
