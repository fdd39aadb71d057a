//! Where the files are: in a directory, or on a filesystem of their own.

use crate::place::BenchDir;
use anyhow::{Context, Result};
use logforce_measure::counters::CounterSource;
use logforce_measure::workplace;
use logforce_testkit::loopfs::LoopFs;
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A directory to work in.
pub struct Ground {
    // Before the filesystem: it has to be gone when that is unmounted.
    place: BenchDir,
    filesystem: Option<LoopFs>,
    in_words: String,
}

impl Ground {
    /// A directory in `dir`; with `kind`, a filesystem of that kind and of so many MiB in an image
    /// there, on a loop device of its own.
    ///
    /// # Errors
    /// What is missing.
    pub fn new(dir: &Path, kind: Option<(&str, u64)>) -> Result<Ground> {
        let filesystem = kind
            .map(|(kind, mib)| LoopFs::new(kind, mib, dir))
            .transpose()?;
        let place = BenchDir::new(filesystem.as_ref().map_or(dir, LoopFs::path))?;
        let counts = match (&place.counted, &filesystem) {
            (Ok(device), Some(_)) => format!("its own device {device}: the counts are exact"),
            (Ok(device), None) => format!(
                "the counts are those of the whole device {device}: they include what others do \
                 meanwhile (--loop ext4, as root, gives a device of its own)"
            ),
            (Err(e), _) => format!("nothing is counted: {e}"),
        };
        let what = kind.map_or(String::new(), |(kind, _)| format!(", {kind} in an image"));
        Ok(Ground {
            in_words: format!("in {}{what}; {counts}", dir.display()),
            place,
            filesystem,
        })
    }

    /// An empty directory; [`Fresh`] removes it again.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn fresh(&self, name: &str) -> Result<Fresh> {
        let path = self.place.path().join(name);
        std::fs::create_dir(&path)?;
        Ok(Fresh(path))
    }

    /// Writes all blocks of the image once, so that it has them from then on: a sparse one would get them while
    /// a log is measured, from the filesystem below. Does nothing in a directory.
    ///
    /// # Errors
    /// What the system says: that there is too little space for the image.
    pub fn write_all_blocks(&self) -> Result<()> {
        match &self.filesystem {
            Some(filesystem) => fill(filesystem.path()).with_context(|| {
                format!(
                    "cannot write all blocks of {}",
                    filesystem.image().display()
                )
            }),
            None => Ok(()),
        }
    }

    /// Waits until what was written before is on the disk: the system would write it during what comes next.
    ///
    /// # Errors
    /// What the system says.
    pub fn settle(&self) -> Result<()> {
        rustix::fs::syncfs(File::open(self.place.path())?)?;
        if let Some(filesystem) = &self.filesystem {
            File::open(filesystem.image())?.sync_all()?;
        }
        Ok(())
    }

    /// Takes the files of a directory out of the system's cache, and so the image that they are in.
    ///
    /// # Errors
    /// What the system says.
    pub fn forget(&self, dir: &Path) -> Result<()> {
        // What is not written yet stays in the cache.
        rustix::fs::syncfs(File::open(dir)?)?;
        forget_files(dir)?;
        if let Some(filesystem) = &self.filesystem {
            let image = File::open(filesystem.image())?;
            image.sync_all()?;
            fadvise(&image, 0, None, Advice::DontNeed)?;
        }
        Ok(())
    }

    /// What counts what the device below does.
    pub fn counters(&self) -> Rc<dyn CounterSource> {
        Rc::clone(&self.place.counters)
    }

    /// Where this is, and whose flushes are counted.
    pub fn in_words(&self) -> &str {
        &self.in_words
    }

    /// Nobody else uses the device.
    pub fn is_own_device(&self) -> bool {
        self.filesystem.is_some()
    }
}

/// Writes a file until the filesystem is full, and removes it.
fn fill(filesystem: &Path) -> Result<()> {
    let path = filesystem.join("blocks");
    let mut file = File::create(&path)?;
    let zeroes = vec![0; 1 << 20];
    let filled = loop {
        match file.write_all(&zeroes) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::StorageFull => break Ok(()),
            Err(e) => break Err(e),
        }
    };
    let filled = filled.and_then(|()| file.sync_all());
    drop(file);
    std::fs::remove_file(&path)?;
    Ok(filled?)
}

fn forget_files(dir: &Path) -> Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            forget_files(&entry.path())?;
        } else if kind.is_file() {
            fadvise(File::open(entry.path())?, 0, None, Advice::DontNeed)?;
        }
    }
    Ok(())
}

/// A directory of one turn, gone when this is dropped.
pub struct Fresh(PathBuf);

impl Fresh {
    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // What is left goes with the directory above.
        let _ = workplace::remove(&self.0);
    }
}
