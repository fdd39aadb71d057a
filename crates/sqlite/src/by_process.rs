//! Objects that the connections of a process share, by the path of their file.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

type Objects<T> = HashMap<(u32, PathBuf), Weak<T>>;

/// Table of the objects in use. A forked child sees none of its parent: their threads do not run there, and
/// what they keep in memory is the parent's to write.
pub struct ByProcess<T>(Mutex<Option<Objects<T>>>);

impl<T> ByProcess<T> {
    pub const fn new() -> Self {
        ByProcess(Mutex::new(None))
    }

    fn objects(&self) -> MutexGuard<'_, Option<Objects<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the object of the file.
    pub fn get(&self, path: &Path) -> Option<Arc<T>> {
        let key = (std::process::id(), path.to_owned());
        self.objects().as_ref()?.get(&key)?.upgrade()
    }

    /// Returns the object of the file, and makes it if there is none.
    pub fn get_or_make(&self, path: &Path, make: impl FnOnce() -> T) -> Arc<T> {
        let mut objects = self.objects();
        let objects = objects.get_or_insert_default();
        let key = (std::process::id(), path.to_owned());
        if let Some(known) = objects.get(&key).and_then(Weak::upgrade) {
            return known;
        }
        let object = Arc::new(make());
        objects.retain(|_, object| object.strong_count() > 0);
        objects.insert(key, Arc::downgrade(&object));
        object
    }
}
