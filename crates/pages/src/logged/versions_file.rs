//! Older versions of pages that a reader still needs and that are neither in the data file nor in the
//! log any more: the file `versions`. Never forced, and made anew by each opening that needs it: no
//! reader outlives one.

use crate::changes::Image;
use crate::error::{Error, Result};
use crate::file_read;
use crate::files::{DataDir, VERSIONS};
use logforce_device::sync::Mutex;
use logforce_device::{AlignedBuf, Directory, File, OpenFile, Write};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, PoisonError};

pub(super) struct VersionsFile {
    dir: Arc<dyn Directory>,
    /// Made when the first version is kept: a full disk must not keep a page file from being opened.
    file: OnceLock<Arc<dyn File>>,
    path: PathBuf,
    page_size: u32,
    slots: Mutex<Slots>,
}

#[derive(Default)]
struct Slots {
    free: Vec<u64>,
    end: u64,
}

impl VersionsFile {
    /// Without any version. Removes what an earlier opening has left.
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
            file: OnceLock::new(),
            path,
            page_size,
            slots: Mutex::default(),
        })
    }

    fn slots(&self) -> logforce_device::sync::MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file. Only the checkpointer keeps versions, so no two threads make it.
    fn file(&self) -> Result<&Arc<dyn File>> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let file = self.dir.open(VERSIONS, OpenFile::CREATE);
        let file = file.map_err(Error::io("create", &self.path))?;
        Ok(self.file.get_or_init(|| file))
    }

    /// Writes a version, and returns its slot.
    pub(super) fn keep(&self, image: &Image) -> Result<u64> {
        let file = self.file()?;
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
        written.map_err(Error::io("write", &self.path))?;
        Ok(slot)
    }

    pub(super) fn read(&self, slot: u64) -> Result<Image> {
        let mut buf = vec![0; self.page_size as usize];
        let offset = slot * u64::from(self.page_size);
        let range = offset..offset + buf.len() as u64;
        let file = self.file()?;
        file_read::read_with_retries(&**file, range, || {
            let read = file_read::read_all(&**file, offset, &mut buf);
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
