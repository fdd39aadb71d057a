//! Several writes in flight. Helper threads do them where a write blocks its thread.
//!
//! `logforce_device::write_out` is not used, because it has the fixed depth of a page file and copies the
//! pages. Here each row sets its depth, and nothing is copied.

use logforce_device::{AlignedBuf, File, Platform, Write};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// Default number of writes in flight: the number of threads that a page file uses by default.
pub const DEPTH: usize = 8;

/// Writes that one thread performs.
struct Share {
    file: Arc<dyn File>,
    writes: Vec<Write>,
}

/// Buffers of all writes, in the order of the writes, and the first error.
type Done = (Vec<AlignedBuf>, io::Result<()>);

struct Helper {
    /// Sender of work; `None` once the thread should end.
    shares: Option<Sender<Share>>,
    done: Receiver<Done>,
    thread: Option<JoinHandle<()>>,
}

/// Performs several writes at once and waits for all of them.
#[derive(Default)]
pub struct InFlight {
    helpers: Vec<Helper>,
}

impl InFlight {
    /// Starts helper threads for up to `depth` writes at once on `platform`. Windows needs no threads:
    /// its write call returns while the write is in flight.
    pub fn new(depth: usize, platform: Platform) -> io::Result<InFlight> {
        let threads = match platform {
            Platform::Windows => 0,
            _ => depth.saturating_sub(1),
        };
        let mut helpers = Vec::with_capacity(threads);
        for _ in 0..threads {
            let (shares, todo) = channel::<Share>();
            let (tell, done) = channel();
            let body = move || {
                for share in todo {
                    if tell.send(one_thread(&*share.file, share.writes)).is_err() {
                        return;
                    }
                }
            };
            let thread = std::thread::Builder::new().name("bench-write".to_owned());
            helpers.push(Helper {
                shares: Some(shares),
                done,
                thread: Some(thread.spawn(body)?),
            });
        }
        Ok(InFlight { helpers })
    }

    /// Performs all writes and returns once none is in flight.
    pub fn write(&self, file: &Arc<dyn File>, mut writes: Vec<Write>) -> Done {
        let threads = self.helpers.len() + 1;
        // This thread takes the first share, so that a single write needs no thread switch.
        let share = writes.len().div_ceil(threads).max(1);
        let mut rest = writes.split_off(share.min(writes.len()));
        let mut waiting = Vec::new();
        for helper in &self.helpers {
            if rest.is_empty() {
                break;
            }
            let behind = rest.split_off(share.min(rest.len()));
            let writes = std::mem::replace(&mut rest, behind);
            let file = Arc::clone(file);
            let sent = helper
                .shares
                .as_ref()
                .map(|s| s.send(Share { file, writes }));
            if matches!(sent, Some(Ok(()))) {
                waiting.push(helper);
            }
        }
        let (mut buffers, mut result) = one_thread(&**file, writes);
        for helper in waiting {
            let (more, theirs) = helper
                .done
                .recv()
                .unwrap_or_else(|_| (Vec::new(), Err(io::Error::other("a writing thread ended"))));
            buffers.extend(more);
            result = result.and(theirs);
        }
        (buffers, result)
    }
}

/// Submits all writes before it waits for the first.
fn one_thread(file: &dyn File, writes: Vec<Write>) -> Done {
    let tickets: Vec<_> = writes.into_iter().map(|w| file.submit(w)).collect();
    let mut result = Ok(());
    let mut buffers = Vec::with_capacity(tickets.len());
    for ticket in tickets {
        let done = file.complete(ticket);
        buffers.push(done.buf);
        result = result.and(done.result);
    }
    (buffers, result)
}

impl Drop for InFlight {
    fn drop(&mut self) {
        for helper in &mut self.helpers {
            helper.shares = None;
            if let Some(thread) = helper.thread.take() {
                let _ = thread.join();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MemDirectory;
    use logforce_device::{Directory, OpenFile};
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn all_are_written_and_their_memory_comes_back_in_order() {
        for (platform, threads) in [(Platform::Linux, 7), (Platform::Windows, 0)] {
            let dir = MemDirectory::new();
            let file = dir.open("a", OpenFile::CREATE).unwrap();
            let in_flight = InFlight::new(DEPTH, platform).unwrap();
            assert_eq!(in_flight.helpers.len(), threads);
            for count in [0_usize, 1, 2, 8, 9, 160] {
                let write = |n: usize| {
                    let mut buf = AlignedBuf::zeroed(512, 512);
                    buf.fill(n as u8 + 1);
                    let (offset, range) = (n as u64 * 512, 0..512);
                    Write {
                        offset,
                        buf,
                        range,
                        through: true,
                    }
                };
                let before = dir.shared.writes.load(Relaxed);
                let (buffers, result) = in_flight.write(&file, (0..count).map(write).collect());
                result.unwrap();
                assert_eq!(dir.shared.writes.load(Relaxed) - before, count as u64);
                let order: Vec<u8> = buffers.iter().map(|b| b[0]).collect();
                let wanted: Vec<u8> = (0..count).map(|n| n as u8 + 1).collect();
                assert_eq!(order, wanted);
            }
            let bytes = dir.bytes("a");
            assert!(
                bytes
                    .chunks(512)
                    .enumerate()
                    .all(|(n, b)| b[0] == n as u8 + 1)
            );
            dir.shared.bad_through.store(true, Relaxed);
            let buf = AlignedBuf::zeroed(512, 512);
            let bad = Write {
                offset: 0,
                buf,
                range: 0..512,
                through: true,
            };
            assert!(in_flight.write(&file, vec![bad]).1.is_err());
        }
    }
}
