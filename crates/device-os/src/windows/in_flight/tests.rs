use super::*;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar};
use std::time::Duration;

/// Reaction of the fake to a call, in the order of the calls.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Writes everything at once.
    Do,
    /// Refuses the call at its start.
    Refuse,
    /// Writes only this number of bytes.
    Short(usize),
    /// Fails at its end.
    Fail,
    /// Ends only when `release` is called with its number.
    Hold,
}

/// File in memory whose writes end when and how the test decides.
#[derive(Default)]
struct Fake {
    script: Mutex<Vec<Step>>,
    shared: Arc<Shared>,
    calls: AtomicU64,
}

#[derive(Default)]
struct Shared {
    bytes: Mutex<Vec<u8>>,
    released: Mutex<Vec<u64>>,
    changed: Condvar,
    /// Number of operations whose memory the "system" still has.
    held: AtomicU64,
}

impl Shared {
    fn release(&self, call: u64) {
        self.released.lock().unwrap().push(call);
        self.changed.notify_all();
    }

    fn held(&self) -> u64 {
        self.held.load(Ordering::SeqCst)
    }
}

struct Operation {
    call: u64,
    step: Step,
    request: Option<Request>,
    shared: Arc<Shared>,
}

impl Operation {
    fn end(&mut self) -> Option<Ended> {
        let request = self.request.take()?;
        if matches!(self.step, Step::Hold) {
            let mut released = self.shared.released.lock().unwrap();
            while !released.contains(&self.call) {
                released = self.shared.changed.wait(released).unwrap();
            }
        }
        let len = match self.step {
            Step::Short(n) => n,
            _ => request.range.len(),
        };
        let written = if matches!(self.step, Step::Fail) {
            Err(io::Error::from(io::ErrorKind::StorageFull))
        } else {
            let mut bytes = self.shared.bytes.lock().unwrap();
            let end = request.offset as usize + len;
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[request.offset as usize..end]
                .copy_from_slice(&request.buf[request.range.start..request.range.start + len]);
            Ok(len)
        };
        self.shared.held.fetch_sub(1, Ordering::SeqCst);
        Some(Ended {
            buf: request.buf,
            written,
        })
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl Starter for Fake {
    type Operation = Operation;

    fn start(&self, request: Request) -> Result<Operation, Ended> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        let step = {
            let script = self.script.lock().unwrap();
            script.get(call as usize).copied().unwrap_or(Step::Do)
        };
        if matches!(step, Step::Refuse) {
            return Err(Ended {
                buf: request.buf,
                written: Err(io::ErrorKind::PermissionDenied.into()),
            });
        }
        self.shared.held.fetch_add(1, Ordering::SeqCst);
        Ok(Operation {
            call,
            step,
            request: Some(request),
            shared: Arc::clone(&self.shared),
        })
    }

    fn wait(&self, mut operation: Operation) -> Ended {
        operation.end().expect("waited for once")
    }
}

fn scripted(script: &[Step]) -> (InFlight<Fake>, Arc<Shared>) {
    let fake = Fake {
        script: Mutex::new(script.to_vec()),
        ..Fake::default()
    };
    let shared = Arc::clone(&fake.shared);
    (InFlight::new(fake), shared)
}

fn filled(len: usize, byte: u8) -> AlignedBuf {
    let mut buf = AlignedBuf::zeroed(len, 4096);
    buf.fill(byte);
    buf
}

fn submit(file: &InFlight<Fake>, offset: u64, byte: u8) -> Ticket {
    file.submit(offset, filled(4096, byte), 0..4096, false, 1)
}

#[test]
fn completions_come_in_any_order_and_bring_their_own_memory() {
    let (file, shared) = scripted(&[Step::Hold; 4]);
    let tickets: Vec<Ticket> = (0..4).map(|i| submit(&file, i * 4096, i as u8)).collect();
    assert_eq!(shared.held(), 4, "all are under way together");
    for call in [2, 0, 3, 1] {
        shared.release(call);
    }
    for (i, ticket) in tickets.into_iter().enumerate().rev() {
        let (done, end) = file.complete(ticket).unwrap();
        done.result.unwrap();
        assert_eq!((done.buf[0], end), (i as u8, (i as u64 + 1) * 4096));
    }
    assert_eq!(shared.held(), 0);
}

#[test]
fn a_late_write_keeps_nobody_waiting_but_its_own() {
    let (file, shared) = scripted(&[Step::Hold, Step::Do]);
    let late = submit(&file, 0, 1);
    let early = submit(&file, 4096, 2);
    let (send, receive): (Sender<u8>, Receiver<u8>) = channel();
    std::thread::scope(|s| {
        let file = &file;
        let of_late = send.clone();
        s.spawn(move || of_late.send(file.complete(late).unwrap().0.buf[0]));
        // While the other thread waits for the late write, or is about to.
        assert_eq!(file.complete(early).unwrap().0.buf[0], 2);
        let more = submit(file, 8192, 3);
        assert_eq!(file.complete(more).unwrap().0.buf[0], 3);
        let nothing = receive.recv_timeout(Duration::from_millis(20));
        assert!(nothing.is_err(), "it was not released yet");
        shared.release(0);
        assert_eq!(receive.recv().unwrap(), 1);
    });
}

#[test]
fn a_failure_is_its_own_writes_and_the_memory_comes_back() {
    let (file, shared) = scripted(&[Step::Do, Step::Fail, Step::Refuse, Step::Do]);
    let tickets: Vec<Ticket> = (0..4).map(|i| submit(&file, i * 4096, 7)).collect();
    let kinds: Vec<_> = tickets
        .into_iter()
        .map(|t| {
            let done = file.complete(t).unwrap().0;
            assert_eq!(done.buf.len(), 4096);
            done.result.err().map(|e| e.kind())
        })
        .collect();
    use io::ErrorKind::{PermissionDenied, StorageFull};
    assert_eq!(
        kinds,
        [None, Some(StorageFull), Some(PermissionDenied), None]
    );
    assert_eq!(shared.held(), 0);
}

#[test]
fn short_writes_are_continued() {
    let (file, shared) = scripted(&[Step::Short(512), Step::Short(1024)]);
    let mut buf = AlignedBuf::zeroed(8192, 4096);
    for (i, byte) in buf.iter_mut().enumerate() {
        *byte = (i / 512) as u8;
    }
    let whole = buf.to_vec();
    let ticket = file.submit(0, buf, 4096..8192, true, 512);
    let (done, end) = file.complete(ticket).unwrap();
    done.result.unwrap();
    assert_eq!((done.buf.len(), end), (8192, 4096));
    assert_eq!(*shared.bytes.lock().unwrap(), whole[4096..]);
}

#[test]
fn what_cannot_be_continued_is_an_error_and_never_a_success() {
    for (script, unit) in [
        // The short write ends off the sector of an unbuffered handle.
        (vec![Step::Short(700)], 512),
        (vec![Step::Short(0)], 1),
        (vec![Step::Short(512), Step::Fail], 512),
        (vec![Step::Short(512), Step::Refuse], 512),
    ] {
        let (file, shared) = scripted(&script);
        let ticket = file.submit(0, filled(4096, 1), 0..4096, false, unit);
        let (done, end) = file.complete(ticket).unwrap();
        assert!(done.result.is_err(), "{script:?}");
        assert_eq!((done.buf.len(), end), (4096, 4096));
        assert_eq!(shared.held(), 0);
    }
}

#[test]
fn dropping_waits_for_what_nobody_completed() {
    let (file, shared) = scripted(&[Step::Hold, Step::Do]);
    let _ = submit(&file, 0, 1);
    let _ = submit(&file, 4096, 2);
    let releasing = Arc::clone(&shared);
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        releasing.release(0);
    });
    assert_eq!(shared.held(), 2);
    drop(file);
    assert_eq!(shared.held(), 0, "the memory was freed under the system");
    thread.join().unwrap();
    assert_eq!(shared.bytes.lock().unwrap().len(), 8192);
}

#[test]
fn a_panic_between_submit_and_complete_frees_nothing_early() {
    let (file, shared) = scripted(&[Step::Hold]);
    let releasing = Arc::clone(&shared);
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        releasing.release(0);
    });
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _ticket = submit(&file, 0, 1);
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    assert_eq!(shared.held(), 0);
    thread.join().unwrap();
}

#[test]
fn foreign_and_ready_tickets() {
    let (file, _) = scripted(&[]);
    assert!(file.complete(Ticket { id: 9, done: None }).is_none());
    let empty = file.submit(0, filled(4096, 1), 7..7, false, 512);
    file.complete(empty).unwrap().0.result.unwrap();
    assert_eq!(file.starter().calls.load(Ordering::SeqCst), 0);
}
