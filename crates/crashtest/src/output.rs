//! The last part of a program's output, however much it prints.

use std::io::{PipeReader, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes that are kept.
const KEPT: usize = 16 << 10;
/// Longest wait for the end of the output of processes that were killed. One that the kernel cannot end keeps it open.
const PATIENCE: Duration = Duration::from_secs(1);

/// A thread that reads a pipe to its end. The program is never held up, and no file of it can fill a disk.
#[derive(Debug)]
pub(crate) struct Output {
    last: Arc<Mutex<Vec<u8>>>,
    thread: JoinHandle<()>,
}

impl Output {
    /// Reads the pipe from now on. Calls `ended` when no process can write to it any more.
    pub(crate) fn read(mut pipe: PipeReader, ended: impl FnOnce() + Send + 'static) -> Output {
        let last = Arc::<Mutex<Vec<u8>>>::default();
        let kept = last.clone();
        let thread = std::thread::spawn(move || {
            let mut bytes = vec![0; 64 << 10];
            while let Ok(len @ 1..) = pipe.read(&mut bytes) {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(&bytes[..len]);
                let surplus = kept.len().saturating_sub(KEPT);
                kept.drain(..surplus);
            }
            ended();
        });
        Output { last, thread }
    }

    /// Waits for the end, and returns the last part. The processes must have been killed.
    pub(crate) fn end(&self) -> String {
        let began = Instant::now();
        while !self.thread.is_finished() && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_micros(100));
        }
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&last).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::mpsc;

    #[test]
    fn the_last_part_of_much_output_is_kept() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let (ending, ended) = mpsc::channel();
        let output = Output::read(reader, move || ending.send(()).unwrap());
        for _ in 0..1000 {
            writer.write_all(&[b'x'; 4096]).unwrap();
        }
        writer.write_all(b"\nthe reason\n").unwrap();
        assert!(ended.try_recv().is_err());
        drop(writer);
        let last = output.end();
        assert_eq!(last.len(), KEPT);
        assert!(last.ends_with("x\nthe reason\n"));
        assert!(ended.try_recv().is_ok());
    }
}
