//! State of a simulated disk, as plain data that a snapshot clones.

use super::counts::{FaultCounts, FaultKind};
use super::failing_calls::{Call, FailingCalls, Refusal};
use super::inode::{How, Inode};
use super::names::{Left, Names};
use super::options::{Rules, SimOptions};
use super::plan::{Counters, Failure, Fault, Misread, Survival};
use super::sector::Sector;
use super::survive::{Fates, Survivors};
use super::write_back::WriteBackErrors;
use crate::Rng;
use crate::runtime::thread_label;
use logforce_device::Barrier;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A write between `submit` and `complete`.
#[derive(Clone)]
pub(super) struct InFlight {
    pub inode: u64,
    pub name: Arc<str>,
    pub offset: u64,
    pub data: Arc<[u8]>,
    pub how: How,
    pub fault: Option<Fault>,
    /// Result once the write is applied, which may be before its `complete`.
    pub done: Option<Result<(), Fault>>,
}

#[derive(Clone)]
pub(super) struct State {
    pub options: SimOptions,
    pub rules: Rules,
    pub rng: Rng,
    pub boot: u64,
    pub cut: bool,
    pub cut_at: Option<u64>,
    /// Number of state-changing operations of this boot.
    pub ops: u64,
    pub reads: u64,
    pub faults: BTreeMap<u64, Fault>,
    pub read_faults: BTreeMap<u64, Misread>,
    /// Shared by all snapshots.
    pub fault_counts: FaultCounts,
    pub counters: Counters,
    /// Number of the next write, change of size or inode.
    next: u64,
    /// `next` at the beginning of this boot.
    first: u64,
    zero: Sector,
    pub inodes: BTreeMap<u64, Arc<Inode>>,
    pub directories: BTreeMap<PathBuf, Names>,
    pub in_flight: BTreeMap<u64, InFlight>,
    pub locks: BTreeSet<u64>,
    pub log: VecDeque<String>,
    /// True if a barrier of this boot has failed.
    pub barrier_failed: bool,
    /// Calls of this boot that fail for a while.
    pub failing_calls: Vec<FailingCalls>,
    /// Time from which each slot of a slow disk is free for a write.
    pub free: Vec<Duration>,
    /// Number of slow writes in progress.
    pub serving: usize,
    /// Number of slow writes that began beside `n` others, at index `n`.
    pub begun_beside: Vec<u64>,
    /// Number of running checks during which no call fails.
    pub exempt: u64,
    /// The last operation or read of this boot that was made to fail.
    pub failed: String,
}

pub(super) fn power_is_cut() -> io::Error {
    io::Error::other("power is cut")
}

impl State {
    pub fn new(options: SimOptions, seed: u64) -> Self {
        assert!(
            options.sector.is_power_of_two(),
            "sector size {}",
            options.sector
        );
        State {
            rules: options.rules(),
            zero: Sector::from(vec![0; options.sector as usize]),
            options,
            rng: Rng::new(seed),
            boot: 1,
            cut: false,
            cut_at: None,
            ops: 0,
            reads: 0,
            faults: BTreeMap::new(),
            read_faults: BTreeMap::new(),
            fault_counts: FaultCounts::default(),
            counters: Counters::default(),
            next: 1,
            first: 1,
            inodes: BTreeMap::new(),
            directories: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            locks: BTreeSet::new(),
            log: VecDeque::new(),
            failed: String::new(),
            barrier_failed: false,
            failing_calls: Vec::new(),
            free: Vec::new(),
            serving: 0,
            begun_beside: Vec::new(),
            exempt: 0,
        }
    }

    /// Begins a write of a slow disk at `now`. Returns its end, or `None` if writes take no time.
    pub fn serve(&mut self, now: Duration) -> Option<Duration> {
        let delays = self.options.delays?;
        if self.begun_beside.len() <= self.serving {
            self.begun_beside.resize(self.serving + 1, 0);
        }
        self.begun_beside[self.serving] += 1;
        self.serving += 1;
        self.free.resize(delays.depth.max(1), Duration::ZERO);
        let place = self.free.iter_mut().min()?;
        *place = now.max(*place) + delays.write;
        Some(*place)
    }

    pub fn next_number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    pub fn note(&mut self, line: impl FnOnce() -> String) {
        if self.options.log_lines > 0 {
            if self.log.len() >= self.options.log_lines {
                self.log.pop_front();
            }
            self.log.push_back(line());
        }
    }

    /// Begins a state-changing operation: counts and logs it, and fails if the power is cut. Returns the
    /// fault that is planned for it.
    pub fn step(&mut self, what: impl FnOnce() -> String) -> io::Result<Option<Fault>> {
        if self.cut {
            return Err(power_is_cut());
        }
        let number = self.ops;
        if self.cut_at.is_some_and(|at| number >= at) {
            self.cut = true;
            self.note(|| format!("#{number} {}: CUT at {}", thread_label(), what()));
            return Err(power_is_cut());
        }
        self.ops += 1;
        let fault = self.faults.remove(&number);
        match fault {
            None => self.note(|| format!("#{number} {}: {}", thread_label(), what())),
            Some(fault) => self.note_failed(format!(
                "#{number} {}: {} FAILS: {fault:?}",
                thread_label(),
                what()
            )),
        }
        Ok(fault)
    }

    /// Returns the failure of a call by [`FailingCalls`], or `None`. Faults that are planned for numbered
    /// operations are separate.
    pub fn fails(&mut self, call: Call) -> Option<Refusal> {
        if self.exempt > 0 || self.cut {
            return None;
        }
        let mut failing_calls = self.failing_calls.iter_mut();
        let how = failing_calls.find_map(|t| t.strikes(call))?;
        self.note(|| format!("{}: {call:?} FAILS: {how:?}", thread_label()));
        let kind = match (how, call) {
            // Counted by the code that decides the resulting state.
            (_, Call::Complete | Call::Barrier) => return Some(how),
            (Refusal::Nothing | Refusal::Half, Call::Read) => FaultKind::ShortRead,
            (Refusal::Nothing | Refusal::Half, _) => FaultKind::ShortListing,
            (Refusal::Medium, Call::Read) => FaultKind::ReadError,
            (Refusal::Medium, Call::Write) => FaultKind::WriteError,
            (Refusal::Medium, _) => FaultKind::OtherError,
            _ => FaultKind::ProcessError,
        };
        self.fault_counts.add(kind, 1);
        Some(how)
    }

    /// Logs the operation that was made to fail, and remembers it even if the log is turned off.
    pub fn note_failed(&mut self, line: String) {
        self.failed.clone_from(&line);
        self.note(|| line);
    }

    /// Counts a planned fault that takes effect. An input/output error counts as `kind`.
    pub fn count_fault(&self, fault: Option<Fault>, kind: FaultKind) {
        match fault {
            None => {}
            Some(Fault::Io) => self.fault_counts.add(kind, 1),
            Some(Fault::NoSpace) => self.fault_counts.add(FaultKind::NoSpace, 1),
            Some(Fault::Panic) => self.fault_counts.add(FaultKind::Panic, 1),
            Some(Fault::Refused(Refusal::Medium)) => self.fault_counts.add(kind, 1),
            Some(Fault::Refused(_)) => self.fault_counts.add(FaultKind::ProcessError, 1),
        }
    }

    pub fn inode(&mut self, id: u64) -> &mut Inode {
        Arc::make_mut(
            self.inodes
                .get_mut(&id)
                .expect("inodes live as long as their boot"),
        )
    }

    pub fn new_inode(&mut self) -> u64 {
        let id = self.next_number();
        let inode = Inode::new(u64::from(self.options.sector), self.zero.clone());
        self.inodes.insert(id, Arc::new(inode));
        id
    }

    /// Returns the number of free sectors. Removed files take no space.
    pub fn free_sectors(&self) -> Option<u64> {
        let capacity = self.options.capacity? / u64::from(self.options.sector);
        Some(capacity.saturating_sub(self.used_sectors()))
    }

    /// Returns the number of sectors of all files.
    pub fn used_sectors(&self) -> u64 {
        let mut ids: Vec<u64> = self
            .directories
            .values()
            .flat_map(|d| d.now.values().copied())
            .collect();
        ids.sort_unstable();
        ids.dedup();
        ids.iter().map(|id| self.inodes[id].blocks()).sum()
    }

    /// Applies a submitted write, unless it was applied already.
    pub fn apply(&mut self, id: u64) -> Result<(), Fault> {
        let w = &self.in_flight[&id];
        if let Some(done) = w.done {
            return done;
        }
        let (w, rules) = (w.clone(), self.rules);
        self.counters.writes += 1;
        self.counters.through_writes += u64::from(w.how.through);
        self.counters.bytes += w.data.len() as u64;
        let inode = &self.inodes[&w.inode];
        let sectors = inode.sectors(w.offset..w.offset + w.data.len() as u64);
        let needed = if self.options.in_place {
            inode.unallocated(sectors)
        } else {
            sectors.end - sectors.start
        };
        let full = self.options.capacity.is_some()
            && self.free_sectors().is_some_and(|free| needed > free);
        let fault = w.fault.or(full.then_some(Fault::NoSpace));
        self.count_fault(fault, FaultKind::WriteError);
        let result = match fault {
            None => {
                self.inode(w.inode)
                    .write(w.offset, &w.data, w.how, rules, |_| true);
                Ok(())
            }
            Some(fault) => {
                // A failed write has changed any part of its range, durable or not.
                let how = How {
                    through: false,
                    ..w.how
                };
                self.apply_parts(&w, how);
                Err(fault)
            }
        };
        self.in_flight.get_mut(&id).expect("looked up above").done = Some(result);
        result
    }

    fn apply_parts(&mut self, w: &InFlight, how: How) {
        let mut rng = self.rng.clone();
        let (kept_in_4, rules) = (rng.pick(&[0, 1, 2, 3, 4]), self.rules);
        let full = self.options.capacity.is_some();
        let inode = self.inode(w.inode);
        let allocated = inode.reserved;
        inode.write(w.offset, &w.data, how, rules, |n| {
            rng.below(4) < kept_in_4 && (!full || n < allocated)
        });
        self.rng = rng;
    }

    /// Applies some of the other writes in flight, because they may be done at any time.
    pub fn apply_some(&mut self) {
        let open = self.in_flight.iter().filter(|(_, w)| w.done.is_none());
        for id in open.map(|(id, _)| *id).collect::<Vec<_>>() {
            if self.rng.one_in(4) {
                // The write keeps its result until `complete`.
                let _ = self.apply(id);
            }
        }
    }

    /// Applies a successful barrier on a file.
    pub fn barrier(&mut self, id: u64, barrier: Barrier) {
        let rules = self.rules;
        self.inode(id).write_back_all(rules);
        if rules.lie {
            return;
        }
        let inode = self.inode(id);
        inode.commit_all(barrier != Barrier::Data);
        inode.commit_size();
        if !self.options.isolate_flush {
            for inode in self.inodes.values_mut().filter(|i| !i.device.is_empty()) {
                Arc::make_mut(inode).commit_all(false);
            }
        }
    }

    /// Decides which data and names survive, and begins the next boot.
    pub fn crash(
        &mut self,
        failure: Failure,
        survival: Option<Survival>,
        left: Option<(&Path, &[Left])>,
        seed: u64,
    ) {
        let mut rng = Rng::new(seed);
        let mut policy = || survival.unwrap_or(rng.pick(&Survival::ALL));
        let (data, names) = (policy(), policy());
        self.note(|| {
            format!("-- {failure:?} failure, seed {seed}: data {data:?}, names {names:?}")
        });
        self.fault_counts.add(FaultKind::Cut, 1);
        let mut fates = Fates::default();
        let survivors = Survivors::new(failure, data, self.first..self.next, &mut rng);
        self.rng = Rng::new(rng.bits());

        let in_flight = std::mem::take(&mut self.in_flight);
        for w in in_flight.into_values().filter(|w| w.done.is_none()) {
            let how = How {
                through: false,
                ..w.how
            };
            if failure == Failure::Process {
                self.apply_parts(&w, how);
            } else {
                // No part of the write is certain, not even on a device without a volatile cache.
                let rules = Rules {
                    cache_through: false,
                    ..self.rules
                };
                self.inode(w.inode)
                    .write(w.offset, &w.data, how, rules, |_| true);
            }
        }
        if failure != Failure::Process {
            for (path, directory) in &mut self.directories {
                match left {
                    Some((told, left)) if told == path => directory.leave(left, &self.fault_counts),
                    _ => directory.crash(names, &mut rng, &self.fault_counts),
                }
            }
            let alive: BTreeSet<u64> = self
                .directories
                .values()
                .flat_map(|d| d.now.values().copied())
                .collect();
            self.inodes.retain(|id, _| alive.contains(id));
            for inode in self.inodes.values_mut() {
                if inode.write_back_errors.is_any() {
                    Arc::make_mut(inode).write_back_errors = WriteBackErrors::default();
                }
                if !(inode.device.is_empty() && inode.cache.is_empty() && inode.sizes.is_empty()) {
                    survivors.of(Arc::make_mut(inode), &mut rng, &mut fates);
                }
            }
            fates.count(&self.fault_counts);
        }
        self.new_boot();
    }

    pub fn new_boot(&mut self) {
        self.boot += 1;
        self.cut = false;
        self.cut_at = None;
        self.ops = 0;
        self.reads = 0;
        self.faults.clear();
        self.read_faults.clear();
        self.failed.clear();
        self.barrier_failed = false;
        self.failing_calls.clear();
        self.locks.clear();
        self.first = self.next;
    }
}
