//! The file to which a program writes its acknowledgements.
//!
//! The harness serves the file. A `write` to it returns after the harness has counted the lines, so an
//! acknowledgement cannot lag behind the cut as it would in a pipe: every line that the disk's sample of the counter
//! covers was written before the cut.

use crate::counters::{self, Counters};
use crate::disk::now;
use crate::disk::serve::{self, Disk};
use crate::testbed::{Image, fresh};
use anyhow::Result;
use fuser::{Errno, ReplyEmpty, ReplyWrite};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counter of lines.
const LINES: usize = 0;
/// Counter that is 1 if the process of the session has ended.
const ENDED: usize = 1;

/// Most bytes that a session may write. Programs that acknowledge one operation with each write stay far below. A
/// program that prints something else there would fill the memory.
const MOST_BYTES: usize = 4 << 20;
/// Most lines of a session.
const MOST_LINES: usize = 1 << 18;

/// A line that a program wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The text without its newline, and without the `?` of an announcement.
    pub text: String,
    /// True for `?TEXT`: the operation was begun, and may be there after a cut or not.
    pub begun: bool,
    /// Time at which it was counted, as [`now`] returns it.
    pub at: u64,
}

/// Function that is called before the lines of a write are counted.
pub(crate) type Hook = Box<dyn FnMut() + Send>;

#[derive(Default)]
struct Received {
    lines: Vec<Line>,
    /// Bytes after the last newline.
    rest: Vec<u8>,
    /// Bytes of the session.
    bytes: usize,
    /// True if a write was refused because the session wrote too much.
    is_flooded: bool,
    hook: Option<Hook>,
}

#[derive(Clone)]
struct Server {
    counters: Arc<File>,
    received: Arc<Mutex<Received>>,
}

impl Server {
    fn received(&self) -> MutexGuard<'_, Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, data: &[u8]) -> std::io::Result<()> {
        let mut received = self.received();
        received.bytes += data.len();
        if received.bytes > MOST_BYTES || received.lines.len() > MOST_LINES {
            received.is_flooded = true;
            return Err(ErrorKind::FileTooLarge.into());
        }
        if let Some(hook) = &mut received.hook {
            hook();
        }
        let mut all = std::mem::take(&mut received.rest);
        all.extend_from_slice(data);
        let mut lines = all.split(|b| *b == b'\n');
        received.rest = lines.next_back().unwrap_or_default().to_vec();
        for line in lines {
            let line = String::from_utf8_lossy(line);
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            received.lines.push(Line {
                text: line.strip_prefix('?').unwrap_or(&line).to_owned(),
                begun: line.starts_with('?'),
                at: now(),
            });
        }
        counters::set(&self.counters, LINES, received.lines.len() as u64)
    }
}

impl Disk for Server {
    fn read(&self, _: u64, _: &mut [u8]) -> Result<(), Errno> {
        Ok(())
    }

    fn write(&self, _: u64, data: &[u8], reply: ReplyWrite) {
        match self.take(data) {
            Ok(()) => reply.written(data.len() as u32),
            Err(e) if e.kind() == ErrorKind::FileTooLarge => reply.error(Errno::EFBIG),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn flush(&self, reply: ReplyEmpty) {
        reply.ok();
    }
}

/// The served file, and the lines of the present session.
pub struct Acks {
    path: PathBuf,
    counters: Image,
    server: Server,
}

impl Acks {
    /// Mounts the file below `home`. It is served until this process ends.
    ///
    /// # Errors
    /// If it cannot be mounted.
    pub fn serve(home: &Path) -> Result<Acks> {
        let path = fresh(home, "acks")?.join("acks");
        File::create(&path)?;
        let counters = Image::new(4096)?;
        let server = Server {
            counters: Arc::new(counters.file().try_clone()?),
            received: Arc::default(),
        };
        let session = serve::mount(&path, None, server.clone())?;
        std::thread::spawn(move || session.run());
        Ok(Acks {
            path,
            counters,
            server,
        })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the counters, of which the first is the number of lines.
    pub fn counters(&self) -> &Image {
        &self.counters
    }

    /// Begins a session without lines and without a hook.
    ///
    /// # Errors
    /// I/O errors of the counters.
    pub(crate) fn begin(&self) -> Result<()> {
        let mut received = self.server.received();
        *received = Received::default();
        Ok(counters::set(self.counters.file(), LINES, 0)?)
    }

    /// Prepares for a process of the session: `hook` is called in each of its writes, before the lines are counted.
    pub(crate) fn expect_process(&self, hook: Option<Hook>) {
        let mut received = self.server.received();
        received.hook = hook;
        // A process that was killed within a line must not give its first half to the next one: `1` and `2` would
        // acknowledge `12`.
        received.rest.clear();
    }

    /// Returns a function to be called when the process has ended. The disk's sample then says so.
    ///
    /// # Errors
    /// I/O errors of the counters.
    pub(crate) fn end_of_process(&self) -> Result<impl FnOnce() + Send + use<>> {
        let counters = self.server.counters.clone();
        counters::set(&counters, ENDED, 0)?;
        Ok(move || {
            // Of use in a report only.
            let _ = counters::set(&counters, ENDED, 1);
        })
    }

    /// Returns true if the process had ended when these counters were sampled.
    pub(crate) fn had_ended(sampled: &Counters) -> bool {
        sampled[ENDED] != 0
    }

    /// Returns true if the session wrote more than [`MOST_BYTES`] or [`MOST_LINES`].
    pub(crate) fn is_flooded(&self) -> bool {
        self.server.received().is_flooded
    }

    /// Returns the number of lines that were acknowledgements so far.
    pub fn count(&self) -> usize {
        let received = self.server.received();
        received.lines.iter().filter(|line| !line.begun).count()
    }

    /// Returns the lines of this session. Returns also the unfinished last line, if there is one.
    pub fn lines(&self) -> (Vec<Line>, Option<String>) {
        let received = self.server.received();
        let rest = String::from_utf8_lossy(&received.rest);
        let rest = (!rest.is_empty()).then(|| rest.into_owned());
        (received.lines.clone(), rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_when_they_are_whole() {
        let counters = Image::new(4096).unwrap();
        let server = Server {
            counters: Arc::new(counters.file().try_clone().unwrap()),
            received: Arc::default(),
        };
        let count = || counters::sample(counters.file()).unwrap()[0];
        server.take(b"1\n2").unwrap();
        assert_eq!(count(), 1);
        server.take(b"2\n# a comment\n\n?3\n").unwrap();
        assert_eq!(count(), 3);
        let lines = server.received().lines.clone();
        let texts: Vec<_> = lines.iter().map(|l| (&*l.text, l.begun)).collect();
        assert_eq!(texts, [("1", false), ("22", false), ("3", true)]);
    }

    #[test]
    fn the_hook_is_called_before_the_lines_are_counted() {
        let counters = Image::new(4096).unwrap();
        let server = Server {
            counters: Arc::new(counters.file().try_clone().unwrap()),
            received: Arc::default(),
        };
        let (called, file) = (
            Arc::new(Mutex::new(Vec::new())),
            counters.file().try_clone().unwrap(),
        );
        let seen = called.clone();
        server.received().hook = Some(Box::new(move || {
            let count = counters::sample(&file).unwrap()[LINES];
            seen.lock().unwrap().push(count);
        }));
        server.take(b"1\n").unwrap();
        server.take(b"2\n").unwrap();
        assert_eq!(*called.lock().unwrap(), [0, 1]);
    }

    #[test]
    fn a_session_that_floods_is_refused() {
        let counters = Image::new(4096).unwrap();
        let server = Server {
            counters: Arc::new(counters.file().try_clone().unwrap()),
            received: Arc::default(),
        };
        let written = (0..1000).take_while(|_| server.take(&[b'y'; 128 << 10]).is_ok());
        assert_eq!(written.count(), MOST_BYTES / (128 << 10));
        assert!(server.received().is_flooded);
        *server.received() = Received::default();
        let lines = b"y\n".repeat(64 << 10);
        let written = (0..1000).take_while(|_| server.take(&lines).is_ok());
        assert_eq!(written.count(), MOST_LINES / (64 << 10) + 1);
    }

    #[test]
    fn half_a_line_of_a_killed_process_is_not_continued_by_the_next() {
        let counters = Image::new(4096).unwrap();
        let acks = Acks {
            path: PathBuf::new(),
            server: Server {
                counters: Arc::new(counters.file().try_clone().unwrap()),
                received: Arc::default(),
            },
            counters,
        };
        acks.server.take(b"1\n2").unwrap();
        acks.expect_process(None);
        acks.server.take(b"3\n").unwrap();
        let texts: Vec<_> = acks.lines().0.into_iter().map(|l| l.text).collect();
        assert_eq!(texts, ["1", "3"]);
    }
}
