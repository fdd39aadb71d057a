//! Files in a known state before commits write to them: growing, fallocated, zeroed or recycled.

use crate::run::generator::Generator;
use crate::{Interrupt, MeasureError};
use logforce_device::{AlignedBuf, Barrier, Directory, File, FileState, OpenFile, Write};
use logforce_terminal::progress::Progress;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

/// Size of a write while filling, bytes.
const FILL: usize = 1 << 20;

/// A file that the rows of one file state share. Each row uses the next part of the file. When the file
/// is used up, it is renewed, outside of every timed part.
pub struct PreparedFile {
    dir: Arc<dyn Directory>,
    name: String,
    state: FileState,
    size: u64,
    alignment: usize,
    cursor: u64,
    buffered: Option<Arc<dyn File>>,
    direct: Option<Arc<dyn File>>,
    interrupt: Interrupt,
    progress: Rc<dyn Progress>,
}

impl PreparedFile {
    /// Describes a file of `size` bytes in `dir`, which is created when first used. `alignment` is the
    /// write unit in bytes.
    pub fn new(
        dir: Arc<dyn Directory>,
        state: FileState,
        size: u64,
        alignment: usize,
        interrupt: Interrupt,
        progress: Rc<dyn Progress>,
    ) -> Self {
        let name = format!("journal-{state}");
        let (buffered, direct) = (None, None);
        PreparedFile {
            dir,
            name,
            state,
            size,
            alignment,
            cursor: 0,
            buffered,
            direct,
            interrupt,
            progress,
        }
    }

    /// Returns the name of the file in its directory.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the state of each part of the file before it is written.
    pub fn state(&self) -> FileState {
        self.state
    }

    /// Ensures that the next `need` bytes of the file are unused and in the file's state.
    pub fn ensure(&mut self, need: u64) -> Result<(), MeasureError> {
        if self.buffered.is_some() && self.room() >= need {
            return Ok(());
        }
        self.renew()
    }

    /// Starts again at the beginning of the file. Creates and fills the file anew, except a recycled one that
    /// exists already.
    pub fn renew(&mut self) -> Result<(), MeasureError> {
        self.cursor = 0;
        match self.state {
            FileState::Fallocated => {
                let file = self.recreate()?;
                let reserved = file
                    .reserve(self.size)
                    .map_err(self.error("reserving space for"))?;
                if !reserved {
                    self.spoil();
                    return Err(MeasureError::NotOffered(
                        "this filesystem does not support fallocate".to_owned(),
                    ));
                }
                file.barrier(Barrier::Full).map_err(self.error("syncing"))
            }
            FileState::Zeroed => self.fill(false),
            FileState::Recycled if self.buffered.is_some() => Ok(()),
            FileState::Recycled => self.fill(true),
            _ => {
                let file = self.recreate()?;
                file.barrier(Barrier::Full).map_err(self.error("syncing"))
            }
        }
    }

    /// Prepares a new slice: a growing file becomes empty again.
    pub fn begin(&mut self, need: u64) -> Result<(), MeasureError> {
        if self.state == FileState::Growing {
            self.spoil();
        }
        self.ensure(need)
    }

    /// Returns the offset of the next unused part, bytes.
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Marks the file as used up to `cursor`.
    pub fn advance_to(&mut self, cursor: u64) {
        self.cursor = cursor;
    }

    /// Returns the number of unused bytes.
    pub fn room(&self) -> u64 {
        self.size.saturating_sub(self.cursor)
    }

    /// Opens the file: with direct I/O if `direct`, else buffered.
    pub fn open(&mut self, direct: bool) -> Result<Arc<dyn File>, MeasureError> {
        let slot = if direct { &self.direct } else { &self.buffered };
        if let Some(file) = slot {
            return Ok(Arc::clone(file));
        }
        let how = OpenFile {
            direct,
            ..OpenFile::WRITE
        };
        let file = match self.dir.open(&self.name, how) {
            Err(e)
                if direct
                    && matches!(
                        e.kind(),
                        io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput
                    ) =>
            {
                return Err(MeasureError::NotOffered(format!(
                    "this filesystem refuses O_DIRECT ({e})"
                )));
            }
            other => other.map_err(self.error("opening"))?,
        };
        *(if direct {
            &mut self.direct
        } else {
            &mut self.buffered
        }) = Some(Arc::clone(&file));
        Ok(file)
    }

    /// Writes back the dirty pages of a slice (if `dirty`) and drops the file from the page cache, so that
    /// neither affects the next slice.
    pub fn quiet(&mut self, dirty: bool) -> Result<(), MeasureError> {
        let Some(file) = &self.buffered else {
            return Ok(());
        };
        if dirty {
            file.barrier(Barrier::Full)
                .map_err(self.error("writing back"))?;
        }
        file.drop_cache(0..self.size);
        Ok(())
    }

    /// Forgets the file after an error. It is created again when it is next needed.
    pub fn spoil(&mut self) {
        (self.buffered, self.direct) = (None, None);
        self.cursor = 0;
    }

    fn recreate(&mut self) -> Result<Arc<dyn File>, MeasureError> {
        self.spoil();
        self.progress
            .doing(&format!("making the {} file", self.state));
        match self.dir.remove(&self.name) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(self.error("removing")(e)),
            _ => {}
        }
        let file = self
            .dir
            .open(&self.name, OpenFile::CREATE)
            .map_err(self.error("making"))?;
        self.dir
            .sync()
            .map_err(self.error("syncing the directory of"))?;
        self.buffered = Some(Arc::clone(&file));
        Ok(file)
    }

    /// Fills the whole file with zeros or with data, with a single sync at the end.
    fn fill(&mut self, with_data: bool) -> Result<(), MeasureError> {
        let file = match &self.buffered {
            Some(file) => Arc::clone(file),
            None => {
                let file = self.recreate()?;
                // Without fallocate, the writes below allocate the blocks.
                file.reserve(self.size)
                    .map_err(self.error("reserving space for"))?;
                file
            }
        };
        self.progress
            .doing(&format!("filling the {} file", self.state));
        let result = self.fill_open(&*file, with_data);
        if result.is_err() {
            self.spoil();
        }
        result
    }

    fn fill_open(&self, file: &dyn File, with_data: bool) -> Result<(), MeasureError> {
        let mut buf = AlignedBuf::zeroed(FILL, self.alignment.max(4096));
        let mut generator = Generator::fresh();
        let mut offset = 0;
        while offset < self.size {
            self.interrupt.check()?;
            if with_data {
                generator.fill(&mut buf);
            }
            let len = usize::try_from(self.size - offset)
                .unwrap_or(FILL)
                .min(FILL);
            buf = write(file, buf, offset, len, false).map_err(self.error("filling"))?;
            offset += len as u64;
        }
        file.barrier(Barrier::Full).map_err(self.error("syncing"))?;
        file.drop_cache(0..self.size);
        Ok(())
    }

    fn error(&self, doing: &str) -> impl FnOnce(io::Error) -> MeasureError + use<> {
        MeasureError::io(format!(
            "{doing} {}",
            self.dir.path().join(&self.name).display()
        ))
    }
}

/// Writes `len` bytes, waits for completion and returns the buffer.
pub fn write(
    file: &dyn File,
    buf: AlignedBuf,
    offset: u64,
    len: usize,
    through: bool,
) -> io::Result<AlignedBuf> {
    let ticket = file.submit(Write {
        offset,
        buf,
        range: 0..len,
        through,
    });
    let completion = file.complete(ticket);
    completion.result.map(|()| completion.buf)
}

/// Distance in bytes between the numbers that make each chunk different from the one before. Otherwise a
/// device could deduplicate blocks or skip the write.
const STAMP_EVERY: usize = 4096;

/// Writes `number` into each block, so that the data differ from those written before.
pub fn restamp(bytes: &mut [u8], number: u64) {
    for block in bytes.chunks_mut(STAMP_EVERY) {
        let stamp = number.to_le_bytes();
        let n = block.len().min(stamp.len());
        block[..n].copy_from_slice(&stamp[..n]);
    }
}

/// Fills `bytes` with output of a generator, which a device can neither compress nor deduplicate.
pub fn scramble(bytes: &mut [u8], seed: u64) {
    Generator::new(seed).fill(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MemDirectory;
    use logforce_terminal::progress::Silent;

    fn prepared(dir: &Arc<MemDirectory>, state: FileState) -> PreparedFile {
        let dir = Arc::clone(dir) as Arc<dyn Directory>;
        PreparedFile::new(
            dir,
            state,
            (3 << 20) + 4096,
            4096,
            Interrupt::new(),
            Rc::new(Silent),
        )
    }

    #[test]
    fn each_state_is_what_its_name_says() {
        let dir = MemDirectory::new();
        for state in FileState::ALL {
            let mut file = prepared(&dir, state);
            file.begin(4096).unwrap();
            let bytes = dir.bytes(&format!("journal-{state}"));
            match state {
                FileState::Growing => assert!(bytes.is_empty()),
                FileState::Recycled => {
                    assert_eq!(bytes.len(), (3 << 20) + 4096);
                    assert!(bytes.chunks(4096).all(|page| page.iter().any(|&b| b != 0)));
                }
                _ => assert!(bytes.len() == (3 << 20) + 4096 && bytes.iter().all(|&b| b == 0)),
            }
        }
        assert_eq!(dir.unsynced(), 0);
    }

    #[test]
    fn a_used_up_file_is_made_anew() {
        let dir = MemDirectory::new();
        for state in FileState::ALL {
            let mut file = prepared(&dir, state);
            file.begin(4096).unwrap();
            let buf = AlignedBuf::zeroed(4096, 4096);
            let handle = file.open(false).unwrap();
            let mut buf = write(&*handle, buf, 0, 4096, false).unwrap();
            buf.fill(7);
            write(&*handle, buf, 4096, 4096, true).unwrap();
            file.advance_to((3 << 20) + 4096);
            file.ensure(4096).unwrap();
            assert_eq!(file.cursor(), 0);
            let bytes = dir.bytes(&format!("journal-{state}"));
            assert_eq!(
                bytes.get(4096) == Some(&7),
                state == FileState::Recycled,
                "{state}"
            );
        }
    }

    #[test]
    fn filling_stops_when_asked_to() {
        let dir = MemDirectory::new();
        let mut file = prepared(&dir, FileState::Zeroed);
        file.interrupt.raise();
        assert!(matches!(file.ensure(1), Err(MeasureError::Interrupted)));
    }
}
