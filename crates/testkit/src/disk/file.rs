//! `File` of the simulated disk.

use super::boot::{Boot, check};
use super::counts::FaultKind;
use super::failing_calls::Call;
use super::inode::How;
use super::plan::{Fault, Misread};
use super::sector::SectorFault;
use super::state::{InFlight, State};
use logforce_device::sync::AtomicU32;
use logforce_device::{
    Barrier, Blocks, Completion, File, ReadSource, Ticket, Write, WriteQueue, failure,
};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

pub(super) struct SimFile {
    pub at: Boot,
    pub inode: u64,
    pub name: Arc<str>,
    pub direct: bool,
    pub writable: bool,
    /// True if direct reads are possible.
    pub medium: bool,
    /// Write unit: required alignment of direct I/O.
    pub unit: u64,
    /// Errors of write-backs that were reported by this open file, or before it was opened.
    pub mark: AtomicU64,
}

fn invalid(text: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, text)
}

fn no_space(s: &State) -> io::Error {
    s.fault_counts.add(FaultKind::NoSpace, 1);
    io::Error::new(ErrorKind::StorageFull, "no space left")
}

impl SimFile {
    fn check_write(&self, write: &Write) -> io::Result<()> {
        let Range { start, end } = write.range;
        if start > end || end > write.buf.len() {
            return Err(invalid(format!(
                "range {start}..{end} of {} bytes",
                write.buf.len()
            )));
        }
        if !self.writable {
            let text = format!("{} was opened for reading only", self.name);
            return Err(io::Error::new(ErrorKind::PermissionDenied, text));
        }
        let parts = [
            write.offset,
            start as u64,
            end as u64,
            write.buf.alignment() as u64,
        ];
        if self.direct && parts.iter().any(|p| p % self.unit != 0) {
            return Err(invalid(format!(
                "direct write to {}: offset {}, range {start}..{end} of memory aligned to {} \
                 must be multiples of {}",
                self.name, parts[0], parts[3], self.unit
            )));
        }
        Ok(())
    }

    /// Waits for the time that a slow disk needs for a write.
    fn take_time(&self) {
        let now = self.at.runtime.now();
        let ends = match self.at.disk.lock().serve(now) {
            Some(ends) => ends,
            None => return,
        };
        self.wait_until(ends);
        self.at.disk.lock().serving -= 1;
    }

    fn wait_until(&self, ends: Duration) {
        let word = AtomicU32::new(0);
        loop {
            let now = self.at.runtime.now();
            if now >= ends {
                break;
            }
            self.at.runtime.wait(&word, 0, Some(ends - now));
        }
    }

    fn try_submit(&self, write: &Write) -> io::Result<u64> {
        self.check_write(write)?;
        let mut s = self.at.enter(Call::Write)?;
        let data: Arc<[u8]> = Arc::from(&write.buf[write.range.clone()]);
        let (offset, end) = (write.offset, write.offset + data.len() as u64);
        let other = s.in_flight.values().find(|w| {
            w.inode == self.inode && w.offset < end && offset < w.offset + w.data.len() as u64
        });
        assert!(
            other.is_none(),
            "contract: write {offset}..{end} to {} overlaps one in flight\n{}",
            self.name,
            Vec::from(s.log.clone()).join("\n")
        );
        let fault = s.step(|| {
            let kind = if self.direct { "direct" } else { "buffered" };
            let through = if write.through { " through" } else { "" };
            format!("submit {}[{offset}..{end}] {kind}{through}", self.name)
        })?;
        let id = s.next_number();
        let how = How {
            write: id,
            direct: self.direct,
            through: write.through,
        };
        let (inode, name) = (self.inode, self.name.clone());
        s.in_flight.insert(
            id,
            InFlight {
                inode,
                name,
                offset,
                data,
                how,
                fault,
                done: None,
            },
        );
        Ok(id)
    }

    /// Begins a write without waiting for it.
    pub fn begin(&self, write: Write) -> Ticket {
        match self.try_submit(&write) {
            Err(e) => Ticket::ready(write.buf, Err(e)),
            Ok(id) => {
                let buffers = &self.at.disk.buffers;
                buffers
                    .lock()
                    .expect("never panics")
                    .insert((self.at.boot, id), write.buf);
                Ticket { id, done: None }
            }
        }
    }

    /// Returns true if a write-back has failed that this open file has not reported yet.
    fn has_write_back_error(&self, s: &mut State) -> bool {
        s.inode(self.inode).write_back_errors.report(&self.mark)
    }

    fn try_complete(&self, id: u64) -> io::Result<()> {
        let (mut s, how) = self.at.look(Call::Complete)?;
        let w = s
            .in_flight
            .get(&id)
            .expect("contract: a ticket is completed once, by its file");
        assert_eq!(
            w.inode, self.inode,
            "contract: a ticket is completed by its file"
        );
        let (name, offset) = (w.name.clone(), w.offset);
        let fault = s.step(|| format!("complete {name}[{offset}..]"))?;
        let fault = fault.or(how.map(Fault::Refused));
        let w = s.in_flight.get_mut(&id).expect("looked up above");
        w.fault = w.fault.or(fault);
        s.apply_some();
        if s.in_flight[&id].done.is_some_and(|done| done.is_ok()) {
            s.count_fault(fault, FaultKind::WriteError);
        }
        let result = s.apply(id);
        let through = s.in_flight.remove(&id).is_some_and(|w| w.how.through);
        // A fault of the completion comes too late for a write that was applied early. The caller still gets
        // its error.
        let result = result.and(fault.map_or(Ok(()), Err));
        let result = match result {
            Ok(()) if through && self.has_write_back_error(&mut s) => {
                s.count_fault(Some(Fault::Io), FaultKind::WriteError);
                Err(Fault::Io)
            }
            result => result,
        };
        drop(s);
        self.at.runtime.point();
        result.map_err(|f| f.error())
    }
}

impl File for SimFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.at.enter(Call::Len)?.inode(self.inode).size)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8], source: ReadSource) -> io::Result<usize> {
        let medium = source == ReadSource::Medium;
        if medium && !self.medium {
            let text = "this simulated filesystem cannot read past the cache";
            return Err(io::Error::new(ErrorKind::Unsupported, text));
        }
        let parts = [offset, buf.len() as u64, buf.as_ptr() as u64];
        if medium && !buf.is_empty() && parts.iter().any(|p| p % self.unit != 0) {
            let (len, name, unit) = (buf.len(), &self.name, self.unit);
            return Err(invalid(format!(
                "read of {name} past the cache: offset {offset}, length {len} and address must \
                 be multiples of {unit}"
            )));
        }
        let (mut s, how) = self.at.look(Call::Read)?;
        let number = s.reads;
        s.reads += 1;
        s.counters.reads += 1;
        let buf = match how {
            None => buf,
            Some(how) if how.is_short() => {
                let size = s.inodes[&self.inode].size;
                let there = size.saturating_sub(offset).min(buf.len() as u64) as usize;
                // A direct read ends between two units, as real direct I/O does.
                let unit = if medium { self.unit as usize } else { 1 };
                &mut buf[..how.part_of(there) / unit * unit]
            }
            Some(how) => return Err(how.error()),
        };
        let misread = s.read_faults.remove(&number);
        let rules = s.rules;
        if medium && !s.inodes[&self.inode].cache.is_empty() {
            // Writes the range back first, as Linux does before a direct read.
            let inode = s.inode(self.inode);
            let end = offset + (buf.len() as u64).min(inode.size.saturating_sub(offset));
            for n in inode.sectors(offset..end) {
                inode.write_back(n, rules);
            }
        }
        let once = match misread {
            None => None,
            Some(Misread::Error) => {
                s.fault_counts.add(FaultKind::ReadError, 1);
                None
            }
            Some(how) => {
                let sectors = (buf.len() as u64).div_ceil(u64::from(s.options.sector));
                let at = offset + s.rng.below(sectors) * u64::from(s.options.sector);
                let size = s.inodes[&self.inode].size;
                let fault = match how {
                    Misread::Stale => SectorFault::Stale,
                    _ => SectorFault::Misdirected(s.rng.below(size)),
                };
                let mut inode = s.inodes[&self.inode].as_ref().clone();
                inode.inject(at, &fault);
                Some(inode)
            }
        };
        let inode = once.as_ref().unwrap_or(&s.inodes[&self.inode]);
        let read = inode.read(offset, buf, !medium, &s.fault_counts);
        match read {
            Some(n) if misread != Some(Misread::Error) => {
                s.counters.bytes_read += n as u64;
                Ok(n)
            }
            _ => {
                s.note_failed(format!("read {number} of {}[{offset}..] FAILS", self.name));
                Err(failure::medium(
                    "input/output error: cannot read (injected)",
                ))
            }
        }
    }

    fn submit(&self, write: Write) -> Ticket {
        if !self.at.disk.lock().options.blocking {
            return self.begin(write);
        }
        match self.try_submit(&write) {
            Err(e) => Ticket::ready(write.buf, Err(e)),
            Ok(id) => {
                self.take_time();
                let result = self.try_complete(id);
                Ticket::ready(write.buf, result)
            }
        }
    }

    /// Returns a queue only if `submit` blocks, as on Linux.
    fn write_queue(self: Arc<Self>, depth: usize) -> Option<Box<dyn WriteQueue>> {
        let blocks = self.direct && self.at.disk.lock().options.blocking;
        blocks.then(|| Box::new(SimQueue::new(self, depth)) as Box<dyn WriteQueue>)
    }

    fn complete(&self, ticket: Ticket) -> Completion {
        if let Some(done) = ticket.done {
            return done;
        }
        let result = self.try_complete(ticket.id);
        let mut buffers = self.at.disk.buffers.lock().expect("never panics");
        let buf = buffers.remove(&(self.at.boot, ticket.id));
        Completion {
            buf: buf.expect("contract: a ticket is completed once"),
            result,
        }
    }

    fn barrier(&self, barrier: Barrier) -> io::Result<()> {
        let delays = self.at.disk.lock().options.delays;
        if let Some(delays) = delays.filter(|d| !d.barrier.is_zero()) {
            self.wait_until(self.at.runtime.now() + delays.barrier);
        }
        let (mut s, how) = self.at.look(Call::Barrier)?;
        let fault = s.step(|| format!("barrier {} {barrier:?}", self.name))?;
        let fault = fault.or(how.map(Fault::Refused));
        s.counters.barriers += 1;
        s.apply_some();
        s.count_fault(fault, FaultKind::BarrierError);
        if let Some(fault) = fault {
            let (mut rng, rules) = (s.rng.clone(), s.rules);
            s.barrier_failed = true;
            s.inode(self.inode).fail_barrier(&mut rng, rules);
            s.rng = rng;
            self.has_write_back_error(&mut s);
            return Err(fault.error());
        }
        s.barrier(self.inode, barrier);
        if self.has_write_back_error(&mut s) {
            s.barrier_failed = true;
            s.count_fault(Some(Fault::Io), FaultKind::BarrierError);
            return Err(Fault::Io.error());
        }
        drop(s);
        // This point comes after the barrier, because the barrier does not cover writes that complete while
        // this thread returns. It catches callers that read too late which writes they have made durable.
        self.at.runtime.point();
        Ok(())
    }

    fn reserve(&self, len: u64) -> io::Result<bool> {
        let mut s = self.at.enter(Call::Reserve)?;
        let fault = s.step(|| format!("reserve {} for {}", len, self.name))?;
        check(&s, fault)?;
        s.counters.reserves += 1;
        let offered = s.options.in_place && s.options.reserves;
        let free = s.free_sectors();
        let number = s.next_number();
        let inode = s.inode(self.inode);
        if offered {
            let sectors = inode.sectors(0..len);
            if free.is_some_and(|free| inode.unallocated(sectors.clone()) > free) {
                return Err(no_space(&s));
            }
            inode.reserved = inode.reserved.max(sectors.end);
        }
        inode.grow(number, len);
        Ok(offered)
    }

    fn write_zeroes(&self, range: Range<u64>) -> io::Result<bool> {
        let mut s = self.at.enter(Call::Reserve)?;
        if !(s.options.in_place && s.options.zeroes) {
            return Ok(false);
        }
        if [range.start, range.end].iter().any(|p| p % self.unit != 0) {
            return Err(invalid(format!(
                "zeroes by the device to {}[{}..{}]: both must be multiples of {}",
                self.name, range.start, range.end, self.unit
            )));
        }
        let fault = s.step(|| format!("zero {}[{}..{}]", self.name, range.start, range.end))?;
        check(&s, fault)?;
        s.counters.zeroes += 1;
        let (free, number, rules) = (s.free_sectors(), s.next_number(), s.rules);
        let inode = s.inode(self.inode);
        let sectors = inode.sectors(range);
        if free.is_some_and(|free| inode.unallocated(sectors.clone()) > free) {
            return Err(no_space(&s));
        }
        inode.zero(sectors, number, rules);
        Ok(true)
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        let (s, how) = self.at.look(Call::Len)?;
        match how {
            Some(how) if !how.is_short() => Err(how.error()),
            _ => Ok(s.inodes[&self.inode].next_data(offset)),
        }
    }

    fn blocks(&self, range: Range<u64>) -> Blocks {
        let s = self.at.disk.lock();
        match s.options.tells_blocks && s.boot == self.at.boot && !s.cut {
            true => s.inodes[&self.inode].blocks_in(range, s.options.allocates_late),
            false => Blocks::Unknown,
        }
    }

    fn begin_write_back(&self, range: Range<u64>) {
        self.at.runtime.point();
        let mut s = self.at.disk.lock();
        if s.boot != self.at.boot || s.cut {
            return;
        }
        s.counters.write_backs_begun += 1;
        // Any part of the range may have reached the device.
        let (mut rng, rules) = (s.rng.clone(), s.rules);
        let inode = s.inode(self.inode);
        for n in inode.sectors(range.start..range.end.min(inode.size)) {
            if rng.one_in(2) {
                inode.write_back(n, rules);
            }
        }
        s.rng = rng;
    }

    fn drop_cache(&self, range: Range<u64>) {
        self.at.runtime.point();
        let mut s = self.at.disk.lock();
        if s.boot == self.at.boot && !s.cut && !s.inodes[&self.inode].cache.is_empty() {
            let inode = s.inode(self.inode);
            let sectors = inode.sectors(range);
            inode.drop_cache(sectors);
        }
    }
}

/// Write queue of a file: writes end in any order.
struct SimQueue {
    file: Arc<SimFile>,
    depth: usize,
    next: u64,
    in_flight: BTreeMap<u64, Ticket>,
    ended: Vec<(u64, Completion)>,
}

impl SimQueue {
    fn new(file: Arc<SimFile>, depth: usize) -> SimQueue {
        SimQueue {
            file,
            depth,
            next: 0,
            in_flight: BTreeMap::new(),
            ended: Vec::new(),
        }
    }

    /// Waits for one of the writes in flight.
    fn end_one(&mut self) {
        if self.in_flight.is_empty() {
            return;
        }
        let nth = self.file.at.below(self.in_flight.len());
        let number = self.in_flight.keys().copied().nth(nth);
        let ended = number.and_then(|n| Some((n, self.in_flight.remove(&n)?)));
        if let Some((number, ticket)) = ended {
            self.ended.push((number, self.file.complete(ticket)));
        }
    }
}

impl WriteQueue for SimQueue {
    fn submit(&mut self, write: Write) -> u64 {
        if self.in_flight.len() >= self.depth {
            self.end_one();
        }
        let number = self.next;
        self.next += 1;
        let ticket = self.file.begin(write);
        self.in_flight.insert(number, ticket);
        number
    }

    fn complete(&mut self) -> Option<(u64, Completion)> {
        if self.ended.is_empty() {
            self.end_one();
        }
        self.ended.pop()
    }
}

impl Drop for SimQueue {
    fn drop(&mut self) {
        while !self.in_flight.is_empty() {
            self.end_one();
        }
    }
}
