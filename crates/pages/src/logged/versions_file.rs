//! Versions file (`versions`): older versions of pages that a reader still needs and that have left the data
//! file and the log. It is never forced. It is created when the first version is kept, and removed when no
//! reader reads any of them. No reader outlives an opening.

use crate::changes::Image;
use crate::error::{Error, Result};
use crate::file_read;
use crate::files::{DataDir, VERSIONS};
use logforce_device::sync::{AtomicU64, Mutex, MutexGuard};
use logforce_device::{AlignedBuf, Directory, File, OpenFile, Write};
use logforce_format::{Lsn, planted};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, PoisonError};

pub(super) struct VersionsFile {
    dir: Arc<dyn Directory>,
    /// Created when the first version is kept. A full disk must not prevent the opening of a page file.
    file: Mutex<Option<Arc<dyn File>>>,
    path: PathBuf,
    page_size: u32,
    slots: Mutex<Slots>,
    /// State below which readers may read what is kept, or 0 if nothing is kept.
    needed_below: AtomicU64,
}

#[derive(Default)]
struct Slots {
    free: Vec<u64>,
    end: u64,
}

impl VersionsFile {
    /// Begins without any version. Removes the file that an earlier opening has left.
    pub(super) fn new(data_dir: &DataDir, page_size: u32) -> Result<VersionsFile> {
        let path = data_dir.path_of(VERSIONS);
        match data_dir.dir.remove(VERSIONS) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("remove", &path)(e));
            }
            _ => {}
        }
        Ok(VersionsFile {
            dir: data_dir.dir.clone(),
            file: Mutex::default(),
            path,
            page_size,
            slots: Mutex::default(),
            needed_below: AtomicU64::new(0),
        })
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the file, and creates it if necessary. Only the checkpointer keeps versions, so no two threads
    /// create it.
    fn file(&self, need: u64) -> Result<Arc<dyn File>> {
        if let Some(file) = &*self.opened() {
            return Ok(file.clone());
        }
        let file = self.dir.open(VERSIONS, OpenFile::CREATE);
        let file = file.map_err(|e| Error::no_space("create", self.path.clone(), need, e))?;
        *self.opened() = Some(file.clone());
        Ok(file)
    }

    fn opened(&self) -> MutexGuard<'_, Option<Arc<dyn File>>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a reader of this state may read what is kept.
    pub(super) fn is_needed_by(&self, at: Lsn) -> bool {
        at.0 < self.needed_below.load(SeqCst)
    }

    /// Returns true if versions are kept and no reader needs them. The oldest reader reads the state
    /// `oldest`.
    pub(super) fn is_outlived(&self, oldest: Lsn) -> bool {
        let needed_below = self.needed_below.load(SeqCst);
        0 < needed_below && needed_below <= oldest.0 && !planted!("versions-kept")
    }

    /// Removes the file if no slot is in use. The checkpointer calls this. After an error the file stays, for
    /// the next attempt.
    pub(super) fn remove_if_empty(&self) {
        let mut slots = self.slots();
        if (slots.free.len() as u64) < slots.end {
            return;
        }
        *slots = Slots::default();
        drop(slots);
        if self.dir.remove(VERSIONS).is_ok() {
            let removed = self.opened().take();
            drop(removed);
            self.needed_below.store(0, SeqCst);
        }
    }

    /// Writes a version that readers of states below `until` may need, and returns its slot. It is the first
    /// of `need` bytes that are to be kept.
    pub(super) fn keep(&self, image: &Image, until: Lsn, need: u64) -> Result<u64> {
        let file = self.file(need)?;
        self.needed_below.fetch_max(until.0, SeqCst);
        let slot = {
            let mut slots = self.slots();
            match slots.free.pop() {
                Some(slot) => slot,
                None => {
                    slots.end += 1;
                    slots.end - 1
                }
            }
        };
        let mut buf = AlignedBuf::zeroed(image.len(), 512);
        buf.copy_from_slice(image);
        let ticket = file.submit(Write {
            offset: slot * u64::from(self.page_size),
            range: 0..image.len(),
            buf,
            through: false,
        });
        let written = file.complete(ticket).result;
        if written.is_err() {
            self.free([slot]);
        }
        written.map_err(|e| Error::no_space("write", self.path.clone(), need, e))?;
        Ok(slot)
    }

    pub(super) fn read(&self, slot: u64) -> Result<Image> {
        let mut buf = vec![0; self.page_size as usize];
        let offset = slot * u64::from(self.page_size);
        let range = offset..offset + buf.len() as u64;
        let file = self.file(0)?;
        file_read::read_with_retries(&*file, range, || {
            let read = file_read::read_all(&*file, offset, &mut buf);
            let read = read.map_err(Error::io("read", &self.path))?;
            read.map_err(|found| Error::Damaged {
                path: self.path.clone(),
                what: "older version of a page".to_owned(),
                offset,
                found,
            })
        })?;
        Ok(buf.into())
    }

    pub(super) fn free(&self, slots: impl IntoIterator<Item = u64>) {
        self.slots().free.extend(slots);
    }
}
