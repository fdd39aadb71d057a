//! Files that are not on the disk at an acknowledgement, by the kernel's word.

use super::object::{Object, directories, name};
use crate::writeback::collect;
use logforce_device_os::dirty_pages;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

/// Acknowledgements at which the page cache is examined.
const EXAMINED: u64 = 150;
/// Largest number of objects that are found.
const MOST_OBJECTS: usize = 12;

/// A file whose contents were not on the disk at acknowledgements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Dirty {
    /// Name below the program's directory; `#` stands for any number.
    pub name: String,
    /// Acknowledgements at which it had dirty pages.
    pub acks: u64,
    /// Most bytes in its dirty pages.
    pub bytes: u64,
}

/// Findings of the hook that examines the page cache.
#[derive(Default)]
pub(super) struct Seen {
    /// Acknowledgements at which the kernel answered.
    pub(super) examined: u64,
    pub(super) files: BTreeMap<String, Dirty>,
    pub(super) objects: Vec<Object>,
}

impl Seen {
    /// Examines the files of a program that waits in an acknowledgement.
    pub(super) fn examine(&mut self, dir: &Path) {
        if self.examined >= EXAMINED {
            return;
        }
        let (mut files, mut dirs) = (Vec::new(), Vec::new());
        collect(dir, &mut files);
        directories(dir, &mut dirs);
        let (mut here, mut is_answered) = (BTreeMap::<String, u64>::new(), true);
        for path in &files {
            let name = name(path, dir);
            self.object(Object::File(name.clone()));
            // A file that is gone has nothing to write.
            let Ok(file) = File::open(path) else { continue };
            match dirty_pages(file.as_fd(), 0..u64::MAX) {
                Ok(pages) => {
                    *here.entry(name).or_default() += pages * rustix::param::page_size() as u64
                }
                Err(_) => is_answered = false,
            }
        }
        for path in &dirs {
            let name = name(path, dir);
            let name = if name.is_empty() {
                ".".to_owned()
            } else {
                name
            };
            self.object(Object::Directory(name));
        }
        // Without an answer, "no file is dirty" would be untrue.
        if !is_answered {
            return;
        }
        self.examined += 1;
        for (name, bytes) in here.into_iter().filter(|(_, bytes)| *bytes > 0) {
            let known = self.files.entry(name.clone()).or_insert(Dirty {
                name,
                acks: 0,
                bytes: 0,
            });
            known.acks += 1;
            known.bytes = known.bytes.max(bytes);
        }
    }

    fn object(&mut self, object: Object) {
        if !self.objects.contains(&object) && self.objects.len() < MOST_OBJECTS {
            self.objects.push(object);
        }
    }
}
