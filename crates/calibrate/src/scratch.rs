//! The file that is written to for a trial: in the state that a log's segments are in.

use logforce_device::{
    Access, AlignedBuf, Barrier, Directory, File, FilesystemKind, OpenFile, Runtime, Write,
};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Each of the two parts is so long at most, in bytes.
const PART: u64 = 4 << 20;

/// Bytes by which a part is made ready at first; doubled while there is time.
const FIRST_STEP: u64 = 256 << 10;

const PREFIX: &str = "calibration-";
const SUFFIX: &str = ".tmp";

/// A name that no other trial has, and that a log knows not to be its own.
pub(crate) fn temporary_name(runtime: &dyn Runtime) -> String {
    format!("{PREFIX}{:016x}{SUFFIX}", runtime.random())
}

fn is_temporary(name: &str) -> bool {
    name.strip_prefix(PREFIX)
        .and_then(|rest| rest.strip_suffix(SUFFIX))
        .is_some_and(|d| d.len() == 16 && d.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Removes what a crashed process left. One that is at work in the same directory loses the name
/// of its file by that; it notices, and throws its result away.
pub(crate) fn remove_stale_files(dir: &Arc<dyn Directory>) {
    for entry in dir.entries().unwrap_or_default() {
        if entry.is_file && is_temporary(&entry.name) {
            // A process that may not remove it has not made it.
            let _ = dir.remove(&entry.name);
        }
    }
}

/// A file in two parts: one for methods that go past the system's cache, one for the others, so
/// that neither has to drop the other's pages. Removed when dropped.
///
/// It keeps its name until then: btrfs, for one, does not force a file without a name.
pub(crate) struct Scratch<'a> {
    dir: &'a Arc<dyn Directory>,
    name: String,
    gone: bool,
    cached: Option<Part>,
    direct: Option<Part>,
    unit: u64,
}

/// A part of the file, written in order and then from its start again.
struct Part {
    file: Arc<dyn File>,
    start: u64,
    ready: u64,
    cursor: u64,
}

impl<'a> Scratch<'a> {
    /// Makes the file as a log makes a segment there: blocks reserved and, where the filesystem
    /// overwrites in place, filled with zeroes; forced. Ready before `until`, as far as one
    /// operation can be foreseen: a slow device gets a shorter file.
    pub(crate) fn make(
        dir: &'a Arc<dyn Directory>,
        runtime: &dyn Runtime,
        kind: FilesystemKind,
        unit: u32,
        (with_cached, with_direct): (bool, bool),
        until: Duration,
    ) -> io::Result<Self> {
        let name = temporary_name(runtime);
        let created = dir.open(&name, OpenFile::CREATE)?;
        // From here on dropping it removes the file.
        let mut made = Scratch {
            dir,
            name,
            gone: false,
            cached: None,
            direct: None,
            unit: u64::from(unit),
        };
        if with_direct {
            let how = OpenFile {
                access: Access::Write,
                direct: true,
            };
            made.direct = Some(Part::at(0, dir.open(&made.name, how)?));
        }
        if with_cached {
            made.cached = Some(Part::at(PART, created.clone()));
        }
        let len = if with_cached { 2 * PART } else { PART };
        created.reserve(len)?;
        if kind == FilesystemKind::Relocating {
            // Zeroes would be written elsewhere for nothing; the log does not write them.
            created.barrier(Barrier::Full)?;
            for part in made.parts() {
                part.ready = PART;
            }
            return Ok(made);
        }
        let mut step = FIRST_STEP;
        loop {
            let began = runtime.now();
            for part in made.parts() {
                part.fill(step.min(PART - part.ready), unit)?;
            }
            created.barrier(Barrier::Full)?;
            let now = runtime.now();
            // The next step has twice the bytes.
            let next = 2 * now.saturating_sub(began);
            if made.parts().all(|p| p.ready == PART) || now + next > until {
                return Ok(made);
            }
            step *= 2;
        }
    }

    fn parts(&mut self) -> impl Iterator<Item = &mut Part> {
        self.direct.iter_mut().chain(&mut self.cached)
    }

    /// Where the next `bytes` bytes are written: the file, open past the cache or not, and the
    /// offset. `None` for what was not asked for when it was made.
    pub(crate) fn next(&mut self, direct: bool, bytes: u64) -> Option<(Arc<dyn File>, u64)> {
        debug_assert!(bytes.is_multiple_of(self.unit));
        let part = if direct {
            self.direct.as_mut()
        } else {
            self.cached.as_mut()
        }?;
        if part.cursor + bytes > part.ready {
            part.cursor = 0;
        }
        let offset = part.start + part.cursor;
        part.cursor += bytes;
        Some((part.file.clone(), offset))
    }

    /// Removes the file.
    ///
    /// # Errors
    /// If it cannot be removed; of kind `NotFound` if another process has done so meanwhile.
    pub(crate) fn remove(mut self) -> io::Result<()> {
        self.gone = true;
        (self.direct, self.cached) = (None, None);
        self.dir.remove(&self.name)
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        if !self.gone {
            (self.direct, self.cached) = (None, None);
            // What is left is removed by the next trial here.
            let _ = self.dir.remove(&self.name);
        }
    }
}

impl Part {
    fn at(start: u64, file: Arc<dyn File>) -> Self {
        Part {
            file,
            start,
            ready: 0,
            cursor: 0,
        }
    }

    fn fill(&mut self, bytes: u64, unit: u32) -> io::Result<()> {
        let end = self.ready + bytes;
        let mut buf = AlignedBuf::zeroed(FIRST_STEP as usize, (unit as usize).max(4096));
        while self.ready < end {
            let n = (end - self.ready).min(FIRST_STEP);
            let done = self.file.complete(self.file.submit(Write {
                offset: self.start + self.ready,
                buf,
                range: 0..n as usize,
                through: false,
            }));
            done.result?;
            buf = done.buf;
            self.ready += n;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_are_leftovers() {
        assert!(is_temporary("calibration-0123456789abcdef.tmp"));
        for name in [
            "calibration",
            "calibration-.tmp",
            "calibration-0123456789abcdeg.tmp",
            "0123456789abcdef.tmp",
            "calibration-0123456789abcdef",
        ] {
            assert!(!is_temporary(name), "{name}");
        }
    }
}
