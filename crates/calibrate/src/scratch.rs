//! The file that a trial writes to, in the same state as a log's segments.

use logforce_device::{
    Access, AlignedBuf, Barrier, Directory, File, FilesystemKind, OpenFile, Runtime, Write,
};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Maximum length of each of the two parts, in bytes.
const PART: u64 = 4 << 20;

/// Bytes of a part that are filled in the first step. Each further step doubles them while there is time.
const FIRST_STEP: u64 = 256 << 10;

const PREFIX: &str = "calibration-";
const SUFFIX: &str = ".tmp";

/// Returns a name that no other trial uses, and that a log ignores.
pub(crate) fn temporary_name(runtime: &dyn Runtime) -> String {
    format!("{PREFIX}{:016x}{SUFFIX}", runtime.random())
}

fn is_temporary(name: &str) -> bool {
    name.strip_prefix(PREFIX)
        .and_then(|rest| rest.strip_suffix(SUFFIX))
        .is_some_and(|d| d.len() == 16 && d.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Removes the files of crashed processes. This also removes the file of a trial that is running in the same
/// directory. That trial notices, and discards its result.
pub(crate) fn remove_stale_files(dir: &Arc<dyn Directory>) {
    for entry in dir.entries().unwrap_or_default() {
        if entry.is_file && is_temporary(&entry.name) {
            // A file that this process may not remove is of another user.
            let _ = dir.remove(&entry.name);
        }
    }
}

/// A file in two parts: one for methods with direct I/O, one for the others. So no method must drop the
/// other's cached pages. Dropping this removes the file.
///
/// The file keeps its name until then, because btrfs, for one, does not force a file without a name.
pub(crate) struct Scratch<'a> {
    dir: &'a Arc<dyn Directory>,
    name: String,
    gone: bool,
    cached: Option<Part>,
    direct: Option<Part>,
    unit: u64,
}

/// A part of the file, written from start to end and then again from the start.
struct Part {
    file: Arc<dyn File>,
    start: u64,
    ready: u64,
    cursor: u64,
}

impl<'a> Scratch<'a> {
    /// Creates the file as a log creates a segment: reserves blocks, fills them with zeroes if the filesystem
    /// overwrites in place, and forces the file. Estimates the duration of each operation to end before
    /// `until`, so a slow device gets a shorter file.
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
        // From here on, dropping `made` removes the file.
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
            // Does not write zeroes, like the log: the filesystem would write later data elsewhere anyway.
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
            // The next step writes twice as many bytes.
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

    /// Returns the file (open for direct I/O or not) and the offset for the next `bytes` bytes. Returns
    /// `None` if the scratch file was created without that part.
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
    /// If the file cannot be removed; of kind `NotFound` if another process has removed it meanwhile.
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
            // If this fails, the next trial in this directory removes the file.
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
