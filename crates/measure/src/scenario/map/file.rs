//! Creation of the files, filled to the last byte.

use super::PAGE;
use super::method::{Committer, MapMethod, Ours, failed, stamp};
use crate::run::Setup;
use crate::run::generator::Generator;
use crate::run::prepare::{scramble, write};
use crate::{Interrupt, MeasureError};
use logforce::Guarantee;
use logforce::pages::{CommitMode, Options, PageFile};
use logforce_device::{AlignedBuf, Barrier, Directory, File, OpenFile};
use logforce_terminal::numbers::bytes;
use logforce_terminal::progress::Progress;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// Size of a write or a commit while filling, bytes.
const STEP: u64 = 4 << 20;

/// Bytes of pages between two checkpoints while filling. Otherwise the log would run ahead of the data
/// file, and commits would wait.
const CHECKPOINT: u64 = 64 << 20;

/// Fills files and reports the progress over all of them.
pub(super) struct Filling {
    path: PathBuf,
    interrupt: Interrupt,
    progress: Rc<dyn Progress>,
    done: u64,
    all: u64,
}

impl Filling {
    /// Creates the state for files with a total of `all` bytes.
    pub(super) fn new(setup: &Setup, all: u64) -> Filling {
        Filling {
            path: setup.path.clone(),
            interrupt: setup.interrupt.clone(),
            progress: Rc::clone(&setup.progress),
            done: 0,
            all: all.max(1),
        }
    }

    fn step(&mut self, bytes: u64) -> Result<(), MeasureError> {
        self.done += bytes;
        self.progress.fraction(self.done as f64 / self.all as f64);
        self.interrupt.check()
    }

    /// Creates a plain file and writes all of it, so that it has no holes and no block is allocated
    /// later.
    pub(super) fn raw(
        &mut self,
        directory: &dyn Directory,
        name: &str,
        size: u64,
    ) -> Result<Arc<dyn File>, MeasureError> {
        self.progress.doing(&format!("filling {}", bytes(size)));
        let error = |doing: &str| MeasureError::io(format!("{doing} the file of {}", bytes(size)));
        let file = directory.open(name, OpenFile::CREATE);
        let file = file.map_err(error("making"))?;
        file.reserve(size).map_err(error("reserving space for"))?;
        let mut buf = AlignedBuf::zeroed(STEP as usize, PAGE as usize);
        let mut generator = Generator::fresh();
        let mut offset = 0;
        while offset < size {
            let len = STEP.min(size - offset);
            generator.fill(&mut buf);
            buf = write(&*file, buf, offset, len as usize, false).map_err(error("filling"))?;
            offset += len;
            self.step(len)?;
        }
        file.barrier(Barrier::Full).map_err(error("syncing"))?;
        directory.sync().map_err(error("making"))?;
        Ok(file)
    }

    /// Creates a page file of the library and writes every page.
    pub(super) fn page_file(
        &mut self,
        method: MapMethod,
        size: u64,
    ) -> Result<Box<dyn Committer>, MeasureError> {
        self.progress
            .doing(&format!("filling {} {method}", bytes(size)));
        let mode = match method {
            MapMethod::CopyOnWrite => CommitMode::CopyOnWrite,
            _ => CommitMode::Logged,
        };
        let options = Options::new()
            .mode(mode)
            .page_size(PAGE as u32)
            // The report names the guarantee; a bench does not require one.
            .require(Guarantee::Nothing);
        let path = self.path.join(format!("{method}-{size}"));
        let file = logforce::pages::create_new(path, options).map_err(failed)?;
        self.fill(&file, size)?;
        Ok(Box::new(Ours::new(file, method)))
    }

    fn fill(&mut self, file: &PageFile, size: u64) -> Result<(), MeasureError> {
        let mut page = vec![0; PAGE as usize];
        scramble(&mut page, 0x3a9);
        let (mut next, pages) = (0, size / PAGE);
        while next < pages {
            let end = (next + STEP / PAGE).min(pages);
            let mut transaction = file.begin().map_err(failed)?;
            for n in next..end {
                stamp(&mut page, n, 0);
                transaction.write(n, &page).map_err(failed)?;
            }
            transaction.commit().map_err(failed)?;
            self.step((end - next) * PAGE)?;
            next = end;
            if (next * PAGE).is_multiple_of(CHECKPOINT) {
                file.checkpoint().map_err(failed)?;
            }
        }
        file.checkpoint().map_err(failed)
    }
}
