//! A simulated disk and filesystem that lose, tear, reorder, hold, fail and rot, from a seed.

mod boot;
mod counts;
mod directory;
mod failing_calls;
mod file;
mod inode;
mod names;
mod options;
mod plan;
mod sector;
mod state;
mod survive;
mod write_back;

pub use counts::{FaultCounts, FaultKind};
pub use failing_calls::{Call, FailingCalls, Refusal};
pub use names::Left;
pub use options::{Delays, SimOptions};
pub use plan::{Counters, Failure, Fault, Misread, Survival};
pub use sector::SectorFault;

use crate::Points;
use logforce_device::{AlignedBuf, System, Whereabouts};
use sector::Sector;
use state::State;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A simulated disk, shared by its clones, that outlives its boots.
///
/// *Operations* are the calls that change something: creating a file, submitting and completing a write,
/// barrier, reserve, rename, remove, sync, creating a directory, locking. They are numbered from 0 in each
/// boot, and [`cut_at`](Self::cut_at) and [`fail_at`](Self::fail_at) use these numbers. Reads are numbered
/// separately.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
    /// Buffers of writes in flight, by boot and ticket. They are not part of a snapshot, because they always
    /// return to their owner.
    buffers: Arc<Mutex<BTreeMap<(u64, u64), AlignedBuf>>>,
}

/// Whole state of a disk at one moment: [`SimDisk::snapshot`].
#[derive(Clone)]
pub struct Snapshot(State);

impl SimDisk {
    /// Creates an empty disk. The seed determines random events while the disk runs. The state after a crash
    /// follows from the seed of that crash.
    pub fn new(options: SimOptions, seed: u64) -> Self {
        SimDisk {
            state: Arc::new(Mutex::new(State::new(options, seed))),
            buffers: Arc::default(),
        }
    }

    /// Returns the system for the code under test, in the threads of `runtime`.
    pub fn system(&self, runtime: &(impl Points + Clone + 'static)) -> Arc<dyn System> {
        Arc::new(directory::SimSystem {
            disk: self.clone(),
            runtime: Arc::new(runtime.clone()),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cuts the power at operation `op` of this boot: earlier operations are done, this one and all later
    /// ones fail.
    pub fn cut_at(&self, op: u64) {
        self.lock().cut_at = Some(op);
    }

    /// Cuts the power now.
    pub fn cut(&self) {
        self.lock().cut = true;
    }

    /// Returns true if the power is cut.
    pub fn is_cut(&self) -> bool {
        self.lock().cut
    }

    /// Returns the number of operations in this boot, which is the number of the next one.
    pub fn ops(&self) -> u64 {
        self.lock().ops
    }

    /// Returns the number of reads in this boot, which is the number of the next one.
    pub fn reads(&self) -> u64 {
        self.lock().reads
    }

    /// Cuts the power (if it is not cut yet) and boots again. The seed decides which data and names that were
    /// not durable survive. From now on earlier handles fail, locks are free, planned faults are forgotten,
    /// and operations are counted from 0 again.
    pub fn reboot(&self, seed: u64) {
        self.crash(Failure::Power, None, seed);
    }

    /// Does the same as [`reboot`](Self::reboot) for any kind of failure. Uses the given kind of survival for
    /// data and names; without one, the seed chooses one for each.
    pub fn crash(&self, failure: Failure, survival: Option<Survival>, seed: u64) {
        self.lock().crash(failure, survival, None, seed);
    }

    /// Returns the possible results of a crash for each pending change of names in a directory, oldest first.
    pub fn may_leave(&self, dir: impl AsRef<Path>) -> Vec<Vec<Left>> {
        let s = self.lock();
        let names = s.directories.get(dir.as_ref());
        names.map_or_else(Vec::new, |names| names.may_leave(s.options.torn_renames))
    }

    /// Does the same as [`crash`](Self::crash), with a given result for each of those changes.
    pub fn crash_leaving(
        &self,
        failure: Failure,
        data: Survival,
        dir: impl AsRef<Path>,
        left: &[Left],
        seed: u64,
    ) {
        let left = Some((dir.as_ref(), left));
        self.lock().crash(failure, Some(data), left, seed);
    }

    /// Returns the names in a directory, each with the number of its file.
    pub fn names(&self, dir: impl AsRef<Path>) -> BTreeMap<String, u64> {
        let s = self.lock();
        let names = s.directories.get(dir.as_ref());
        names.map_or_else(BTreeMap::new, |names| names.now.clone())
    }

    /// Makes the path lead to another directory or to none. Open handles of the directory keep working in it.
    pub fn displace(&self, dir: impl AsRef<Path>, to: Whereabouts) {
        if let Some(names) = self.lock().directories.get_mut(dir.as_ref()) {
            names.elsewhere = Some(to);
        }
    }

    /// Makes operation `op` of this boot fail. Any part of a failed write is applied. It reports its error at
    /// `complete`, for the number of its submission and for that of its completion. After a failed barrier
    /// the system's cache is clean, and the device may lack any of the bytes: a second barrier succeeds, and
    /// reads from the cache return the lost bytes.
    pub fn fail_at(&self, op: u64, fault: Fault) {
        self.lock().faults.insert(op, fault);
    }

    /// Makes these calls fail from now on until the next boot.
    pub fn fail_calls(&self, failing: FailingCalls) {
        self.lock().failing_calls.push(failing);
    }

    /// Ends [`fail_calls`](Self::fail_calls). Operations and reads that were planned by their numbers
    /// still fail.
    pub fn stop_failing_calls(&self) {
        self.lock().failing_calls.clear();
    }

    /// Runs a check during which no call of any thread fails by [`fail_calls`](Self::fail_calls).
    pub fn without_failing_calls<T>(&self, what: impl FnOnce() -> T) -> T {
        struct Exempt<'a>(&'a SimDisk);
        impl Drop for Exempt<'_> {
            fn drop(&mut self) {
                let mut s = self.0.lock();
                s.exempt = s.exempt.saturating_sub(1);
            }
        }
        self.lock().exempt += 1;
        let _exempt = Exempt(self);
        what()
    }

    /// Returns true if a barrier of this boot has failed.
    pub fn barrier_failed(&self) -> bool {
        self.lock().barrier_failed
    }

    /// Makes read number `read` of this boot fail.
    pub fn fail_read_at(&self, read: u64) {
        self.misread_at(read, Misread::Error);
    }

    /// Makes read number `read` of this boot return an error or wrong bytes, once.
    pub fn misread_at(&self, read: u64, how: Misread) {
        self.lock().read_faults.insert(read, how);
    }

    /// Returns how often each kind of fault took effect, over all boots and snapshots.
    pub fn faults(&self) -> FaultCounts {
        self.lock().fault_counts.clone()
    }

    /// Changes the options of a disk in use (space, honesty); the sector size stays.
    pub fn change(&self, change: impl FnOnce(&mut SimOptions)) {
        let mut s = self.lock();
        let sector = s.options.sector;
        change(&mut s.options);
        s.options.sector = sector;
        s.rules = s.options.rules();
    }

    /// Returns the number of writes of this boot that are submitted and not completed.
    pub fn max_in_flight_writes(&self) -> usize {
        self.lock().in_flight.len()
    }

    /// Returns the numbers of writes of a slow disk that began beside none, one, two... others.
    pub fn begun_beside(&self) -> Vec<u64> {
        self.lock().begun_beside.clone()
    }

    /// Returns the present options.
    pub fn options(&self) -> SimOptions {
        self.lock().options.clone()
    }

    /// Returns the counts of calls to the disk so far, over all boots.
    pub fn counters(&self) -> Counters {
        self.lock().counters
    }

    /// Returns the last operations, one per line, for the message of a failing test.
    pub fn log(&self) -> String {
        Vec::from(self.lock().log.clone()).join("\n")
    }

    /// Returns the last operation or read of this boot that was made to fail, as a line of
    /// [`log`](Self::log), even if the log is turned off. Returns an empty text if there is none.
    pub fn failed_operation(&self) -> String {
        self.lock().failed.clone()
    }

    /// Returns the present state. This is cheap, because bytes are shared.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.lock().clone())
    }

    /// Restores a snapshot of this disk or of another one. Earlier handles become stale. A snapshot between a
    /// cut and `reboot` allows many reboots after one cut.
    pub fn restore(&self, snapshot: &Snapshot) {
        let mut s = self.lock();
        let (boot, exempt) = (s.boot.max(snapshot.0.boot) + 1, s.exempt);
        *s = snapshot.0.clone();
        (s.boot, s.exempt) = (boot, exempt);
        s.locks.clear();
    }

    /// Returns the names in a directory after a cut that loses everything volatile.
    pub fn stable_names(&self, dir: impl AsRef<Path>) -> Vec<String> {
        let s = self.lock();
        s.directories
            .get(dir.as_ref())
            .map_or_else(Vec::new, |d| d.stable.keys().cloned().collect())
    }

    /// Returns the bytes of a file after a cut that loses everything volatile, with the faults that lie over
    /// them.
    pub fn file_bytes(&self, dir: impl AsRef<Path>, name: &str) -> Option<Vec<u8>> {
        let s = self.lock();
        let id = s.directories.get(dir.as_ref())?.stable.get(name)?;
        let inode = &s.inodes[id];
        let mut bytes = vec![0; inode.stable_size as usize];
        let end = inode.stable_size.div_ceil(inode.sector);
        let overlay = inode.overlays.range(..end);
        let overlay = overlay.filter_map(|(n, overlay)| Some((n, overlay.data.as_ref()?)));
        for (n, data) in inode.stable.range(..end).chain(overlay) {
            let at = (n * inode.sector) as usize;
            let len = data.len().min(bytes.len() - at);
            bytes[at..at + len].copy_from_slice(&data[..len]);
        }
        Some(bytes)
    }

    /// Returns the bytes of a file as the running system sees them, which survive a crash of the process
    /// alone.
    pub fn visible_bytes(&self, dir: impl AsRef<Path>, name: &str) -> Option<Vec<u8>> {
        let s = self.lock();
        let id = s.directories.get(dir.as_ref())?.now.get(name)?;
        let inode = &s.inodes[id];
        let mut bytes = vec![0; inode.size as usize];
        inode.read(0, &mut bytes, true, &s.fault_counts)?;
        Some(bytes)
    }

    /// Durably puts a file on the medium in place of one of that name. Creates the directory if it is
    /// missing. Handles to the old file keep it.
    pub fn put_file(&self, dir: impl AsRef<Path>, name: &str, bytes: &[u8]) {
        let mut s = self.lock();
        let id = s.new_inode();
        let inode = s.inode(id);
        let sector = inode.sector as usize;
        let mut whole = bytes.to_vec();
        whole.resize(bytes.len().next_multiple_of(sector), 0);
        let whole: Arc<[u8]> = whole.into();
        for (n, at) in (0..whole.len()).step_by(sector).enumerate() {
            let data = Sector::part(&whole, at..at + sector);
            inode.stable.insert(n as u64, data);
        }
        inode.size = bytes.len() as u64;
        inode.commit_size();
        inode.reserved = (bytes.len() as u64).div_ceil(sector as u64);
        let names = s.directory_or_new(dir.as_ref());
        names.now.insert(name.to_owned(), id);
        names.stable.insert(name.to_owned(), id);
        s.note(|| format!("-- the test puts {name}, {} bytes", bytes.len()));
    }

    /// Leaves no free space: sets the capacity to what the files have.
    pub fn fill(&self) {
        let mut s = self.lock();
        s.options.capacity = Some(s.used_sectors() * u64::from(s.options.sector));
    }

    /// Turns the files of a directory, which no handle has open, into copies that leave zeroes out. They are
    /// durable, as a restored backup may be (`cp --sparse=always`).
    pub fn copy_sparsely(&self, dir: impl AsRef<Path>) {
        self.copy(
            dir,
            "restores the files sparsely",
            inode::Inode::copy_sparsely,
        );
    }

    /// Does the same as [`copy_sparsely`](Self::copy_sparsely), with all blocks shared with another file
    /// (`cp --reflink`).
    pub fn copy_by_reference(&self, dir: impl AsRef<Path>) {
        self.copy(
            dir,
            "restores the files by reference",
            inode::Inode::copy_by_reference,
        );
    }

    fn copy(&self, dir: impl AsRef<Path>, how: &str, copy: impl Fn(&mut inode::Inode)) {
        let mut s = self.lock();
        s.note(|| format!("-- the test {how}"));
        let names = s.directories.get(dir.as_ref());
        let ids: Vec<u64> = names.map_or_else(Vec::new, |d| d.now.values().copied().collect());
        for id in ids {
            copy(s.inode(id));
        }
    }

    /// Puts other bytes into a file, durably, as a copy over it does. The file keeps its identity, and its
    /// handles read the new bytes. Returns true if the file existed.
    pub fn overwrite_file(&self, dir: impl AsRef<Path>, name: &str, bytes: &[u8]) -> bool {
        let Some(old) = self.names(&dir).get(name).copied() else {
            return false;
        };
        self.put_file(&dir, name, bytes);
        let mut s = self.lock();
        let names = s.directory_or_new(dir.as_ref());
        let new = names.now.insert(name.to_owned(), old);
        names.stable.insert(name.to_owned(), old);
        if let Some(inode) = new.and_then(|new| s.inodes.get(&new).cloned()) {
            s.inodes.insert(old, inode);
        }
        true
    }

    /// Durably gives a file a second name, as the repair of a filesystem may do. Returns true if the file
    /// existed.
    pub fn link_file(&self, dir: impl AsRef<Path>, name: &str, second: &str) -> bool {
        let mut s = self.lock();
        s.note(|| format!("-- the test names {name} {second} too"));
        let names = s.directory_or_new(dir.as_ref());
        let Some(id) = names.stable.get(name).copied() else {
            return false;
        };
        names.now.insert(second.to_owned(), id);
        names.stable.insert(second.to_owned(), id);
        true
    }

    /// Durably removes a file. Returns true if it existed.
    pub fn remove_file(&self, dir: impl AsRef<Path>, name: &str) -> bool {
        let mut s = self.lock();
        s.note(|| format!("-- the test removes {name}"));
        let Some(names) = s.directories.get_mut(dir.as_ref()) else {
            return false;
        };
        let stable = names.stable.remove(name).is_some();
        names.now.remove(name).is_some() || stable
    }

    /// Flips a bit on the medium (rot). Returns true if there is such a byte.
    pub fn flip_bit(&self, dir: impl AsRef<Path>, name: &str, offset: u64, bit: u8) -> bool {
        self.inject(dir, name, offset, &SectorFault::Flipped(bit))
    }

    /// Makes the sector at an offset unreadable until it is written again. Returns true if there is such a
    /// byte.
    pub fn make_unreadable(&self, dir: impl AsRef<Path>, name: &str, offset: u64) -> bool {
        self.inject(dir, name, offset, &SectorFault::Unreadable)
    }

    /// Lays a fault over the sector at an offset. Returns true if there is such a byte.
    pub fn inject(
        &self,
        dir: impl AsRef<Path>,
        name: &str,
        offset: u64,
        fault: &SectorFault,
    ) -> bool {
        let mut s = self.lock();
        let names = s.directories.get(dir.as_ref());
        let Some(id) = names.and_then(|d| d.stable.get(name).copied()) else {
            return false;
        };
        s.note(|| format!("-- the test injects a fault into {name} at {offset}: {fault:?}"));
        let inode = s.inode(id);
        let is_there = offset < inode.stable_size;
        if is_there {
            inode.inject(offset, fault);
        }
        is_there
    }

    /// Removes all faults that lie over sectors, so that reads return the pristine bytes again.
    pub fn lift_faults(&self) {
        let mut s = self.lock();
        s.note(|| "-- the test lifts the faults".to_owned());
        for inode in s.inodes.values_mut().filter(|i| !i.overlays.is_empty()) {
            Arc::make_mut(inode).overlays.clear();
        }
    }
}
