//! Operations that are really pending: on a named pipe, where operations stay pending under Wine too. (On
//! files Wine completes within the call.)

use super::*;
use crate::windows::handle::{How, open};
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, Scope};
use windows_sys::Win32::Foundation::{GENERIC_READ, INVALID_HANDLE_VALUE, WAIT_TIMEOUT};
use windows_sys::Win32::Storage::FileSystem::{OPEN_EXISTING, PIPE_ACCESS_DUPLEX};
use windows_sys::Win32::System::Pipes::CreateNamedPipeW;
use windows_sys::Win32::System::Threading::SetEvent;

/// Bytes that a pipe keeps before writes wait for the reader.
const KEPT: u32 = 4096;
/// Length of a write that exceeds that.
const LONG: usize = 16 * KEPT as usize;

/// Makes both ends of a pipe, for overlapped I/O.
fn pipe() -> (Arc<OwnedHandle>, OwnedHandle) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!(r"\\.\pipe\logforce-test-{}-{number}", std::process::id());
    let name: Vec<u16> = name.encode_utf16().chain([0]).collect();
    let mode = PIPE_ACCESS_DUPLEX | FILE_FLAG_OVERLAPPED;
    // SAFETY: the name ends in a NUL; no attributes. Of bytes (0), one instance.
    let ours = unsafe { CreateNamedPipeW(name.as_ptr(), mode, 0, 1, KEPT, KEPT, 0, ptr::null()) };
    assert_ne!(ours, INVALID_HANDLE_VALUE, "{}", io::Error::last_os_error());
    // SAFETY: made just now, and owned by nothing else.
    let ours = unsafe { OwnedHandle::from_raw_handle(ours) };
    let how = How {
        access: GENERIC_READ | GENERIC_WRITE,
        share: 0,
        disposition: OPEN_EXISTING,
        flags: FILE_FLAG_OVERLAPPED,
        owner: None,
    };
    (Arc::new(ours), open(&name, how).unwrap())
}

type Pending = Operation<(AlignedBuf, Range<usize>)>;

/// Starts a write that is longer than the pipe keeps.
fn long_write(writer: &Writer) -> Pending {
    let mut buf = AlignedBuf::zeroed(LONG, 4096);
    buf.fill(7);
    let request = Request {
        offset: 0,
        buf,
        range: 0..LONG,
        through: false,
    };
    writer.start(request).unwrap()
}

fn event_of(operation: &Pending) -> usize {
    let flight = operation.0.unwrap().as_ptr();
    // SAFETY: the flight lives until the operation is over, and the field is only written before.
    unsafe { (*flight).overlapped.hEvent as usize }
}

fn set(event: usize) {
    // SAFETY: an event of an operation that lives.
    assert_ne!(unsafe { SetEvent(event as HANDLE) }, 0);
}

fn is_set(event: usize) -> bool {
    // SAFETY: an event of an operation that lives.
    let answer = unsafe { WaitForSingleObject(event as HANDLE, 0) };
    assert!(answer == WAIT_OBJECT_0 || answer == WAIT_TIMEOUT);
    answer == WAIT_OBJECT_0
}

fn read_long(handle: &OwnedHandle) {
    let mut bytes = vec![0; LONG];
    let mut done = 0;
    while done < LONG {
        done += read(handle, 0, &mut bytes[done..]).unwrap();
    }
    assert!(bytes.iter().all(|b| *b == 7));
}

/// Runs `waits` on a separate thread, and sends its result.
fn aside<'s, T: Send + 's>(
    scope: &'s Scope<'s, '_>,
    waits: impl FnOnce() -> T + Send + 's,
) -> Receiver<T> {
    let (send, receive) = channel();
    scope.spawn(move || send.send(waits()));
    receive
}

fn still_waits<T>(receive: &Receiver<T>) {
    let early = receive.recv_timeout(Duration::from_millis(100));
    assert!(early.is_err(), "it did not wait for the system");
}

#[test]
fn a_read_waits_for_its_bytes() {
    let (ours, theirs) = pipe();
    thread::scope(|s| {
        let reading = aside(s, || {
            let mut bytes = [0; 8];
            let n = read(&theirs, 0, &mut bytes).unwrap();
            bytes[..n].to_vec()
        });
        still_waits(&reading);
        let writer = Writer::new(Arc::clone(&ours), 0);
        let mut buf = AlignedBuf::zeroed(5, 1);
        buf.copy_from_slice(b"hello");
        let written = writer.start(Request {
            offset: 0,
            buf,
            range: 0..5,
            through: false,
        });
        assert_eq!(writer.wait(written.unwrap()).written.unwrap(), 5);
        assert_eq!(reading.recv().unwrap(), b"hello");
    });
}

#[test]
fn a_write_is_waited_for_until_it_is_over() {
    let (ours, theirs) = pipe();
    let writer = Writer::new(ours, 0);
    let operation = long_write(&writer);
    thread::scope(|s| {
        let waiting = aside(s, || writer.wait(operation));
        still_waits(&waiting);
        read_long(&theirs);
        let ended = waiting.recv().unwrap();
        assert_eq!(ended.written.unwrap(), LONG);
        assert!(ended.buf.iter().all(|b| *b == 7));
    });
}

#[test]
fn memory_is_not_freed_while_the_system_works_on_it() {
    let (ours, theirs) = pipe();
    let operation = long_write(&Writer::new(ours, 0));
    thread::scope(|s| {
        let dropping = aside(s, || drop(operation));
        still_waits(&dropping);
        read_long(&theirs);
        dropping.recv().unwrap();
    });
}

#[test]
fn a_signal_that_comes_early_ends_nothing_and_is_taken_back() {
    for drops in [false, true] {
        let (ours, theirs) = pipe();
        let writer = Writer::new(ours, 0);
        let operation = long_write(&writer);
        let event = event_of(&operation);
        set(event);
        thread::scope(|s| {
            let waiting = aside(s, || {
                if drops {
                    drop(operation);
                    return LONG;
                }
                writer.wait(operation).written.unwrap()
            });
            still_waits(&waiting);
            // The waiter is waiting already.
            set(event);
            still_waits(&waiting);
            // Otherwise the waiter would check again and again, for as long as the write takes.
            let quiet = (0..1000).any(|_| {
                thread::sleep(Duration::from_millis(1));
                !is_set(event)
            });
            read_long(&theirs);
            assert_eq!(waiting.recv().unwrap(), LONG);
            assert!(quiet, "the event stayed set");
        });
    }
}

#[test]
fn a_pipe_that_breaks_is_an_error_and_no_success() {
    let (ours, theirs) = pipe();
    let writer = Writer::new(ours, 0);
    let operation = long_write(&writer);
    thread::scope(|s| {
        let waiting = aside(s, || writer.wait(operation));
        still_waits(&waiting);
        drop(theirs);
        let ended = waiting.recv().unwrap();
        ended.written.unwrap_err();
        assert_eq!(ended.buf.len(), LONG, "the memory comes back");
    });
}
