//! The damaged files of a log, taken while random runs and fuzzing make them.

use crate::model::PATH;
use logforce_testkit::SimDisk;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The damaged files of a log.
#[derive(Debug, Clone, Default)]
pub struct Frozen {
    /// Contents by name.
    pub files: BTreeMap<String, Arc<Vec<u8>>>,
    /// Sectors that cannot be read: name and offset.
    pub unreadable: Vec<(String, u64)>,
    /// Size of a sector, bytes.
    pub sector: u32,
}

/// Damaged copies of random runs, while they are collected.
pub(super) static TAKEN: Mutex<Option<Vec<Frozen>>> = Mutex::new(None);

/// A random run has damaged its disk.
pub(crate) fn take(disk: &SimDisk, unreadable: &[(String, u64)]) {
    let mut taken = TAKEN.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(taken) = &mut *taken {
        taken.push(Frozen {
            files: crate::memory::FileImage::of(disk, PATH).files,
            unreadable: unreadable.to_vec(),
            sector: disk.options().sector,
        });
    }
}
