//! Working directory of a run: in a given directory, or on a separate filesystem.

use super::throttle::{Limits, Throttle};
use crate::place::BenchDir;
use anyhow::{Context, Result, bail};
use logforce_measure::counters::CounterSource;
use logforce_measure::machine::Machine;
use logforce_measure::workplace;
use logforce_testkit::loopfs::LoopFs;
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A directory to work in.
pub struct Ground {
    // Declared first, so that the removals below are not limited.
    throttle: Option<Throttle>,
    // Declared before the filesystem, so that it is removed before the unmount.
    place: BenchDir,
    filesystem: Option<LoopFs>,
    in_words: String,
}

impl Ground {
    /// Creates a directory in `dir`. `kind` is the type of a filesystem and its size in MiB; with it,
    /// the directory is on such a filesystem, in an image in `dir`, on a separate loop device.
    ///
    /// # Errors
    /// If a program or a permission is missing, or the system fails.
    pub fn new(dir: &Path, kind: Option<(&str, u64)>) -> Result<Ground> {
        let filesystem = kind
            .map(|(kind, mib)| LoopFs::new(kind, mib, dir))
            .transpose()?;
        if let Some(filesystem) = &filesystem {
            // Removes limits that a killed run has left. Without a controller there are none.
            drop(Throttle::of(filesystem.device()));
        }
        let place = BenchDir::new(filesystem.as_ref().map_or(dir, LoopFs::path))?;
        let counts = match (&place.counted, &filesystem) {
            (Ok(device), Some(_)) => format!("a separate device {device}: the counts are exact"),
            (Ok(device), None) => format!(
                "the counts are those of the whole device {device}, other programs included \
                    (--loop ext4, as root, measures on a separate device)"
            ),
            (Err(e), _) => format!("device writes are not counted: {e}"),
        };
        let what = kind.map_or(String::new(), |(kind, _)| format!(", {kind} in an image"));
        Ok(Ground {
            throttle: None,
            in_words: format!("in {}{what}; {counts}", dir.display()),
            place,
            filesystem,
        })
    }

    /// Creates an empty directory; [`Fresh`] removes it again.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn fresh(&self, name: &str) -> Result<Fresh> {
        let path = self.place.path().join(name);
        std::fs::create_dir(&path)?;
        Ok(Fresh(path))
    }

    /// Writes all blocks of the image once. A sparse image would otherwise get its blocks from the
    /// filesystem below while a log is measured. Does nothing in a directory.
    ///
    /// # Errors
    /// Returns the system's error, for example if the image needs more space than there is.
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

    /// Limits the loop device from now on.
    ///
    /// # Errors
    /// If this is a directory, or the controller is missing.
    pub fn limit(&mut self, limits: Limits) -> Result<()> {
        let Some(filesystem) = &self.filesystem else {
            bail!("only loop devices can be limited: leave `none` out of --loop");
        };
        self.throttle = Some(Throttle::new(filesystem.device(), limits)?);
        self.in_words.push_str(&format!("; at most {limits}"));
        Ok(())
    }

    /// Waits until earlier writes are on the disk. Otherwise the system would write them during the next
    /// measurement.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn settle(&self) -> Result<()> {
        rustix::fs::syncfs(File::open(self.place.path())?)?;
        if let Some(filesystem) = &self.filesystem {
            File::open(filesystem.image())?.sync_all()?;
        }
        Ok(())
    }

    /// Drops the files of a directory, and the image that contains it, from the system's cache.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn forget(&self, dir: &Path) -> Result<()> {
        // Dirty pages would stay in the cache.
        rustix::fs::syncfs(File::open(dir)?)?;
        forget_files(dir)?;
        if let Some(filesystem) = &self.filesystem {
            let image = File::open(filesystem.image())?;
            image.sync_all()?;
            fadvise(&image, 0, None, Advice::DontNeed)?;
        }
        Ok(())
    }

    /// Returns the counters of the device below.
    pub fn counters(&self) -> Rc<dyn CounterSource> {
        Rc::clone(&self.place.counters)
    }

    /// Returns the machine and the filesystem.
    ///
    /// # Errors
    /// If the system does not describe the filesystem.
    pub fn machine(&self) -> Result<Machine> {
        self.place.machine()
    }

    /// Returns the directory and the counted device, in words.
    pub fn in_words(&self) -> &str {
        &self.in_words
    }

    /// Returns true if only this run uses the device.
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

/// A directory of one turn, removed when this is dropped.
pub struct Fresh(PathBuf);

impl Fresh {
    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // If this fails, the removal of the parent directory covers it.
        let _ = workplace::remove(&self.0);
    }
}
