//! Many writes in flight from one thread, by `io_uring`. Page files use it (`pages/src/write_out/queue.rs`);
//! the log does not.
//!
//! A direct write by `pwrite` puts its thread to sleep until the device is done. On one virtual disk eight
//! threads make 53,000 scattered writes a second, with a context switch for each; one thread with a ring
//! makes 130,000 (`fio`, 4 KiB, 2026-11-24).

#![allow(unsafe_code)]

use super::descriptors::OsFile;
use io_uring::{IoUring, Probe, cqueue, opcode, squeue, types};
use logforce_device::{AlignedBuf, Completion, Write, WriteQueue};
use rustix::io::Errno;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// Number of parts of the queue. Writes are submitted, and waited for, one part at a time. Each call costs a
/// context switch, and on most virtual disks a switch between machines.
const PARTS: usize = 4;
/// Number of times that the kernel may refuse writes while it has none in flight, before that counts as an
/// error.
const REFUSALS: u32 = 1000;

/// Queue of writes to one file.
///
/// While a write is in flight, its memory stays in `in_flight`. If the kernel never returns the write, its
/// memory is never freed.
pub struct Queue {
    /// `None` once the kernel has failed to report the result of its writes.
    ring: Option<IoUring>,
    file: Arc<OsFile>,
    depth: usize,
    next: u64,
    /// Writes given to the ring and not returned yet, by number.
    in_flight: HashMap<u64, Write>,
    /// Number of those writes that were not submitted to the kernel yet.
    untold: usize,
    ended: VecDeque<(u64, Completion)>,
}

impl Queue {
    /// Makes a queue. `None` if the kernel has no such calls or does not permit them: the kernel is old, a
    /// limit of locked memory is reached, or a container's filter forbids them, as many do.
    pub fn new(file: Arc<OsFile>, depth: usize) -> Option<Queue> {
        let depth = depth.clamp(1, 1024);
        // Completions need not interrupt this thread while it runs (Linux 5.19).
        let polite = IoUring::builder().setup_coop_taskrun().build(depth as u32);
        let ring = polite.or_else(|_| IoUring::new(depth as u32)).ok()?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe).ok()?;
        probe.is_supported(opcode::Write::CODE).then(|| Queue {
            ring: Some(ring),
            file,
            depth,
            next: 0,
            in_flight: HashMap::new(),
            untold: 0,
            ended: VecDeque::new(),
        })
    }

    /// Submits the pending writes to the kernel, waits until at least `wait_for` writes have ended, and takes
    /// the ended ones.
    fn enter(&mut self, wait_for: usize) {
        let mut refusals = 0;
        let mut ended = 0;
        while let Some(ring) = &mut self.ring {
            let entered = ring.submit_and_wait(wait_for.saturating_sub(ended));
            let answers: Vec<cqueue::Entry> = ring.completion().collect();
            let left = ring.submission().len();
            self.untold = left;
            ended += answers.len();
            for answer in answers {
                self.take(answer.user_data(), answer.result());
            }
            let failure = match entered.map_err(|e| (e.raw_os_error(), e)) {
                Ok(_) => None,
                Err((Some(number), e)) => match Errno::from_raw_os_error(number) {
                    Errno::INTR => None,
                    // The kernel has no memory for more requests just now.
                    Errno::AGAIN | Errno::BUSY if refusals < REFUSALS => {
                        refusals += u32::from(self.in_flight.len() == self.untold);
                        std::thread::yield_now();
                        None
                    }
                    _ => Some(e),
                },
                Err((None, e)) => Some(e),
            };
            if let Some(e) = failure {
                self.give_up(&e);
            } else if ended >= wait_for && self.untold == 0 {
                return;
            }
        }
    }

    fn part(&self) -> usize {
        self.depth.div_ceil(PARTS)
    }

    /// Handles the kernel's answer to a write: the number of bytes written, or the negated number of an
    /// error.
    fn take(&mut self, number: u64, answer: i32) {
        let Some(write) = self.in_flight.remove(&number) else {
            return;
        };
        let said = match u32::try_from(answer) {
            Ok(written) if written as usize == write.range.len() => Ok(()),
            // Only a part was written. The call below continues, or reports the reason why it cannot.
            Ok(_) => Err(Errno::AGAIN),
            Err(_) => Err(Errno::from_raw_os_error(answer.wrapping_neg())),
        };
        let result = match said {
            Ok(()) => Ok(()),
            // The medium is not at fault, but perhaps the flag, or this kind of call.
            Err(Errno::AGAIN | Errno::INTR | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => {
                self.file.write(&write)
            }
            Err(e) => Err(self.file.write_error(&write, e)),
        };
        self.end(number, write.buf, result);
    }

    fn end(&mut self, number: u64, buf: AlignedBuf, result: io::Result<()>) {
        self.ended.push_back((number, Completion { buf, result }));
    }

    /// Stops using the ring. The kernel accepts no more calls, for example because a filter of system calls
    /// was set after the file was opened. Writes that were not submitted are done without the ring. Submitted
    /// ones have failed: they may or may not be written, also later.
    fn give_up(&mut self, error: &io::Error) {
        // The kernel never sees writes that are only in the ring.
        self.ring = None;
        let mut left: Vec<_> = mem::take(&mut self.in_flight).into_iter().collect();
        left.sort_unstable_by_key(|(number, _)| *number);
        let told = left.len() - mem::take(&mut self.untold);
        for (at, (number, write)) in left.into_iter().enumerate() {
            if at >= told {
                let result = self.file.write(&write);
                self.end(number, write.buf, result);
                continue;
            }
            let error = io::Error::new(error.kind(), format!("io_uring_enter: {error}"));
            let error = self.file.write_error(&write, error);
            // The kernel may still read this memory.
            mem::forget(write.buf);
            self.end(number, AlignedBuf::zeroed(0, 1), Err(error));
        }
    }
}

impl WriteQueue for Queue {
    fn submit(&mut self, write: Write) -> u64 {
        let number = self.next;
        self.next += 1;
        if self.in_flight.len() >= self.depth {
            self.enter(self.part());
        }
        let entry = entry(&self.file, &write, number);
        let (Some(ring), Ok(entry)) = (&mut self.ring, entry) else {
            // That call reports the fault of the write, too.
            let result = self.file.write(&write);
            self.end(number, write.buf, result);
            return number;
        };
        // SAFETY: the memory that the entry names is on the heap and owned by `write`, which is kept in
        // `in_flight` until the kernel has answered, and leaked if it never does; the descriptor is open
        // for as long as `file` is, and the ring goes before that.
        if unsafe { ring.submission().push(&entry) }.is_err() {
            let result = self.file.write(&write);
            self.end(number, write.buf, result);
            return number;
        }
        self.in_flight.insert(number, write);
        self.untold += 1;
        if self.untold == self.part() {
            self.enter(0);
        }
        number
    }

    fn complete(&mut self) -> Option<(u64, Completion)> {
        if self.ended.is_empty() && !self.in_flight.is_empty() {
            self.enter(self.part().min(self.in_flight.len()));
        }
        self.ended.pop_front()
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        while !self.in_flight.is_empty() {
            self.enter(1);
        }
    }
}

fn entry(file: &OsFile, write: &Write, number: u64) -> io::Result<squeue::Entry> {
    let (fd, _, bytes) = file.prepare(write)?;
    let len = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let flags = if write.through { libc::RWF_DSYNC } else { 0 };
    let entry = opcode::Write::new(types::Fd(fd.as_raw_fd()), bytes.as_ptr(), len)
        .offset(write.offset)
        .rw_flags(flags)
        .build();
    Ok(entry.user_data(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::directory::OsDirectory;
    use logforce_device::{Access, Directory, File, OpenFile, ReadSource, failure};

    const UNIT: usize = 4096;

    /// Makes a new file and its queue; `None` if the system has no queue.
    fn open(dir: &OsDirectory) -> Option<(Arc<OsFile>, Queue)> {
        let how = |direct| OpenFile {
            access: Access::CreateNew,
            direct,
        };
        let cached = Arc::new(OsFile::open(&dir.open, "cached", how(false)).unwrap());
        assert!(cached.write_queue(8).is_none(), "no queue is needed");
        dir.facts().unwrap().direct?;
        let file = Arc::new(OsFile::open(&dir.open, "a", how(true)).unwrap());
        let queue = Queue::new(file.clone(), 8);
        if let Err(e) = IoUring::new(2) {
            assert!(queue.is_none(), "{e}");
            eprintln!("skipped: no io_uring here ({e})");
        } else {
            assert!(queue.is_some(), "the kernel has io_uring");
        }
        Some((file, queue?))
    }

    fn write(at: usize, fill: u8, through: bool) -> Write {
        let mut buf = AlignedBuf::zeroed(UNIT, UNIT);
        buf.fill(fill);
        Write {
            offset: (at * UNIT) as u64,
            buf,
            range: 0..UNIT,
            through,
        }
    }

    fn first_bytes(file: &OsFile, units: usize) -> Vec<u8> {
        let mut all = vec![0; units * UNIT];
        let read = file.read_at(0, &mut all, ReadSource::Cache).unwrap();
        all[..read].chunks(UNIT).map(|unit| unit[0]).collect()
    }

    /// Returns the word of flags of a request: bytes 28 to 32 in the kernel's interface.
    fn flags_of(entry: squeue::Entry) -> i32 {
        // SAFETY: an entry is the kernel's structure of 64 bytes, plain integers without padding.
        let bytes: [u8; 64] = unsafe { mem::transmute(entry) };
        i32::from_ne_bytes(bytes[28..32].try_into().unwrap())
    }

    #[test]
    fn a_write_through_is_asked_to_be_one() {
        let temp = tempfile::TempDir::new().unwrap();
        let dir = OsDirectory::open(temp.path()).unwrap();
        let Some((file, _)) = open(&dir) else {
            return;
        };
        for (through, flags) in [(true, libc::RWF_DSYNC), (false, 0)] {
            let entry = entry(&file, &write(0, 1, through), 5).unwrap();
            assert_eq!(flags_of(entry), flags, "through: {through}");
        }
    }

    #[test]
    fn what_the_kernel_did_in_part_or_not_this_way_is_done_otherwise() {
        let temp = tempfile::TempDir::new().unwrap();
        let dir = OsDirectory::open(temp.path()).unwrap();
        let Some((file, mut queue)) = open(&dir) else {
            return;
        };
        let answers = [512, 0, -libc::EOPNOTSUPP, -libc::EAGAIN, -libc::EINVAL];
        for (at, answer) in answers.into_iter().enumerate() {
            // As if the write had been submitted to the kernel.
            queue
                .in_flight
                .insert(at as u64, write(at, 1 + at as u8, true));
            queue.take(at as u64, answer);
            let (number, done) = queue.complete().unwrap();
            assert_eq!(number, at as u64);
            done.result.unwrap();
            assert_eq!(done.buf[0], 1 + at as u8);
        }
        assert_eq!(first_bytes(&file, 8), [1, 2, 3, 4, 5]);
        queue.in_flight.insert(9, write(9, 9, false));
        queue.take(9, -libc::EIO);
        let e = queue.complete().unwrap().1.result.unwrap_err();
        assert!(failure::is_of_medium(&e), "{e}");
        assert!(e.to_string().contains("4096 bytes at 36864"), "{e}");
        assert_eq!(
            first_bytes(&file, 10).len(),
            5,
            "an error is not tried again"
        );
    }

    #[test]
    fn after_a_ring_that_failed_writes_are_done_without() {
        let temp = tempfile::TempDir::new().unwrap();
        let dir = OsDirectory::open(temp.path()).unwrap();
        let Some((file, mut queue)) = open(&dir) else {
            return;
        };
        // Two writes at a time are submitted to the kernel, so the last one is not. None is completed before.
        for at in 0..3 {
            queue.submit(write(at, 1, false));
        }
        assert_eq!(queue.untold, 1);
        let in_flight = queue.in_flight.len();
        queue.give_up(&io::Error::from_raw_os_error(libc::EPERM));
        let mut refused = 0;
        while let Some((number, done)) = queue.complete() {
            match (number, done.result) {
                (2, result) => {
                    result.unwrap();
                    assert_eq!(done.buf.len(), UNIT);
                    assert_eq!(first_bytes(&file, 3)[2..], [1]);
                }
                (_, Err(e)) => {
                    assert!(done.buf.is_empty(), "the kernel may still read the memory");
                    assert!(e.to_string().contains("io_uring_enter"), "{e}");
                    refused += 1;
                }
                // This one had ended before.
                (_, Ok(())) => {}
            }
        }
        assert_eq!(refused, in_flight - 1);
        // Written elsewhere, because the kernel may still write the submitted ones.
        for at in 3..20 {
            queue.submit(write(at, 2, false));
        }
        for _ in 3..20 {
            queue.complete().unwrap().1.result.unwrap();
        }
        assert!(queue.complete().is_none());
        assert_eq!(first_bytes(&file, 20)[3..], [2; 17]);
    }
}
