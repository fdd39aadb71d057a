//! Where the files are, and what counts the device's flushes there.

use anyhow::{Context, Result, bail};
use logforce_device_os::Counter;
use logforce_testkit::loopfs::LoopFs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// What every directory's name begins with: what a killed run leaves can be told by it.
pub const PREFIX: &str = "logforce-rivals-";

/// A directory that is removed, with all that is in it, when this is dropped.
#[derive(Debug)]
pub struct Directory(PathBuf);

impl Directory {
    fn new(parent: &Path, name: &str) -> Result<Directory> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("{PREFIX}{}-{n}-{name}", std::process::id()));
        std::fs::create_dir(&path)
            .with_context(|| format!("cannot make a directory in {}", parent.display()))?;
        Ok(Directory(path))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Nobody is left to tell; the name says what it is.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A directory to work in.
#[derive(Debug)]
pub struct Place {
    // Before the filesystem: it has to be gone when that is unmounted.
    counter: Option<Counter>,
    root: Directory,
    filesystem: Option<LoopFs>,
    in_words: String,
}

impl Place {
    /// A directory in `dir`; with `kind`, a filesystem of that kind and of so many MiB in an image
    /// there, on a loop device of its own.
    ///
    /// # Errors
    /// What is missing.
    pub fn new(dir: &Path, kind: Option<(&str, u64)>) -> Result<Place> {
        if !dir.is_dir() {
            bail!("{} is not a directory", dir.display());
        }
        let filesystem = kind
            .map(|(kind, mib)| LoopFs::new(kind, mib, dir))
            .transpose()?;
        let parent = filesystem.as_ref().map_or(dir, LoopFs::path);
        let root = Directory::new(parent, "all")?;
        let counter = Counter::of(root.path());
        let counts = match (&counter, &filesystem) {
            (Ok(c), Some(_)) => format!("its own device {}: the counts are exact", c.device()),
            (Ok(c), None) => format!(
                "the counts are those of the whole device {}: they include what others do \
                 meanwhile (--loop ext4, as root, gives a device of its own)",
                c.device()
            ),
            (Err(e), _) => format!("nothing is counted: {e}"),
        };
        let what = kind.map_or(String::new(), |(kind, _)| format!(", {kind} in an image"));
        Ok(Place {
            in_words: format!("in {}{what}; {counts}", dir.display()),
            counter: counter.ok(),
            root,
            filesystem,
        })
    }

    /// An empty directory.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn fresh(&self, name: &str) -> Result<Directory> {
        Directory::new(self.root.path(), name)
    }

    /// The counter of the device below, if it has one.
    pub fn counter(&self) -> Option<&Counter> {
        self.counter.as_ref()
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
