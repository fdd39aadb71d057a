//! The small file that a watch commits to.

use crate::prepare::{PreparedFile, restamp, scramble};
use crate::raw;
use crate::{Interrupt, MeasureError};
use logforce_device::{AlignedBuf, Directory, FileState, Method};
use logforce_terminal::progress::Silent;
use std::io::ErrorKind;
use std::rc::Rc;
use std::sync::Arc;

/// Size of the file if commits are small, in bytes.
const SIZE: u64 = 1 << 20;

/// Minimum number of commits before a part of the file is written again.
const PARTS: u64 = 16;

/// A file that is overwritten in place from start to end, again and again, like the recycled segments of a
/// log.
pub struct CommitFile {
    dir: Arc<dyn Directory>,
    file: PreparedFile,
    method: Method,
    /// Memory of the next write; `None` only during one.
    buf: Option<AlignedBuf>,
    number: u64,
}

impl CommitFile {
    /// State of the file before each commit, which decides its guarantee.
    pub const STATE: FileState = FileState::Recycled;

    /// Makes the file in `dir`, and fills it. Each commit writes `bytes` bytes by `method`; `unit` is the
    /// write unit in bytes.
    ///
    /// # Errors
    /// If there is not enough space, or the filesystem does not offer the method.
    pub fn make(
        dir: Arc<dyn Directory>,
        method: Method,
        bytes: u64,
        unit: u32,
        interrupt: Interrupt,
    ) -> Result<CommitFile, MeasureError> {
        let unit = unit as usize;
        let len = usize::try_from(bytes)
            .map_err(|_| MeasureError::NotOffered(format!("{bytes} bytes are too many")))?;
        let mut buf = AlignedBuf::zeroed(len, unit.max(4096));
        scramble(&mut buf, 0xc0ff_ee00);
        let size = SIZE.max(PARTS * bytes);
        let (state, progress) = (CommitFile::STATE, Rc::new(Silent));
        let mut file = PreparedFile::new(Arc::clone(&dir), state, size, unit, interrupt, progress);
        file.begin(bytes)?;
        file.open(method.plan().direct)?;
        Ok(CommitFile {
            dir,
            file,
            method,
            buf: Some(buf),
            number: 0,
        })
    }

    /// Writes the next part of the file and forces it.
    ///
    /// # Errors
    /// The error of the write or of the force. What the file then holds is unknown.
    pub fn commit(&mut self) -> Result<(), MeasureError> {
        let Some(mut buf) = self.buf.take() else {
            return Err(MeasureError::NotOffered(
                "an earlier commit has failed".to_owned(),
            ));
        };
        let (plan, bytes) = (self.method.plan(), buf.len() as u64);
        restamp(&mut buf, self.number);
        self.number += 1;
        self.file.ensure(bytes)?;
        let offset = self.file.cursor();
        let file = self.file.open(plan.direct)?;
        let (buf, result) = raw::commit(&*file, plan, offset, buf);
        let path = self.dir.path().join(self.file.name());
        result.map_err(MeasureError::io(format!(
            "the commit to {} failed",
            path.display()
        )))?;
        self.file.advance_to(offset + bytes);
        self.buf = Some(buf);
        Ok(())
    }

    /// Checks that no other program has removed the file. Some filesystems do not force a file without a
    /// name.
    ///
    /// # Errors
    /// If the file is gone.
    pub fn check_exists(&self) -> Result<(), MeasureError> {
        match self.dir.identity_of(self.file.name()) {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let path = self.dir.path().join(self.file.name());
                Err(MeasureError::io(format!(
                    "another program has removed the watch's file {}; exempt it from the cleaning of \
                     temporary files, or watch another directory of the disk",
                    path.display()
                ))(e))
            }
            _ => Ok(()),
        }
    }
}
