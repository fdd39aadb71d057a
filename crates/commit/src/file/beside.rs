//! Names of what an advisor keeps beside a file.

use logforce_device::{DirEntry, Directory, File, ForwardDirectory, OpenFile};
use std::io;
use std::sync::Arc;

/// Name of the file with results of power cuts. A command writes it, and it counts for the whole directory.
const VERDICTS: &str = "verdicts";

/// The directory of the file `name`, as an advisor sees it. Each name gets the file's name and a dot in front.
/// Otherwise a measurement would replace a user's file that happens to be called `calibration`.
pub(super) struct Beside {
    dir: Arc<dyn Directory>,
    prefix: String,
}

impl Beside {
    pub(super) fn file(dir: Arc<dyn Directory>, name: &str) -> Arc<dyn Directory> {
        let prefix = format!("{name}.");
        Arc::new(Beside { dir, prefix })
    }

    fn name_of(&self, name: &str) -> String {
        match name {
            VERDICTS => name.to_owned(),
            _ => format!("{}{name}", self.prefix),
        }
    }
}

impl ForwardDirectory for Beside {
    fn inner(&self) -> &dyn Directory {
        &*self.dir
    }

    fn entries(&self) -> io::Result<Vec<DirEntry>> {
        let entries = self.dir.entries()?.into_iter();
        let own = entries.filter_map(|entry| {
            let name = entry.name.strip_prefix(&self.prefix)?.to_owned();
            Some(DirEntry { name, ..entry })
        });
        Ok(own.collect())
    }

    fn open(&self, name: &str, how: OpenFile) -> io::Result<Arc<dyn File>> {
        self.dir.open(&self.name_of(name), how)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.dir.rename(&self.name_of(from), &self.name_of(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.dir.remove(&self.name_of(name))
    }
}
