//! Facts from the answers of the disk below a volume.
//!
//! The driver is behind [`Ask`], so that tests can provide answers: Wine answers hardly any of the queries.

use super::{protocol, storage};
use crate::nvme;
use logforce_device::{BlockDevice, Source, WriteCache};
use std::io;

/// Query to a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// Its description: `StorageDeviceProperty`.
    Device,
    /// Its sectors: `StorageAccessAlignmentProperty`.
    Alignment,
    /// Its seek penalty: `StorageDeviceSeekPenaltyProperty`.
    SeekPenalty,
    /// Its cache: `StorageDeviceWriteCacheProperty`.
    WriteCache,
}

/// Disk that can be queried.
pub trait Ask {
    /// Returns the name, such as `PhysicalDrive0`.
    fn name(&self) -> &str;

    /// Returns the driver's answer as bytes.
    fn ask(&self, question: Question) -> io::Result<Vec<u8>>;

    /// Returns the NVMe controller's answer about itself, as the driver's bytes ([`protocol::data`]).
    fn identify(&self) -> io::Result<Vec<u8>>;
}

/// Layers below a filesystem, for the facts.
#[derive(Debug, PartialEq, Eq)]
pub struct Below {
    pub device: Option<BlockDevice>,
    /// True if the system sends flushes.
    pub barriers: bool,
    /// Settings of the system for the disk.
    pub options: String,
}

/// Queries `disk`; `None` if there is no disk to query.
pub fn below<D: Ask>(disk: Option<io::Result<D>>, notes: &mut Vec<String>) -> Below {
    let mut below = Below {
        device: None,
        barriers: true,
        options: String::new(),
    };
    match disk {
        Some(Ok(disk)) => {
            let (device, told_protected) = describe(&disk, notes);
            if told_protected {
                below.barriers = false;
                below.options = "write-cache buffer flushing turned off".to_owned();
            }
            below.device = Some(device);
        }
        Some(Err(e)) => notes.push(format!("The disk cannot be asked about its cache: {e}.")),
        None => {}
    }
    below
}

/// Returns the disk's answers, and whether Windows is configured to send no flushes to its cache.
fn describe(disk: &impl Ask, notes: &mut Vec<String>) -> (BlockDevice, bool) {
    let mut ask = |question, what: &str| match disk.ask(question) {
        Ok(answer) => Some(answer),
        Err(e) => {
            notes.push(format!("The disk does not report {what}: {e}."));
            None
        }
    };
    let sectors = ask(Question::Alignment, "its sector sizes")
        .and_then(|a| storage::sectors(&a))
        .unwrap_or((512, 512));
    let rotational =
        ask(Question::SeekPenalty, "whether it is rotational").and_then(|a| storage::turns(&a));
    let about = ask(Question::Device, "its model").unwrap_or_default();
    let cache = ask(Question::WriteCache, "its cache").and_then(|a| storage::cache(&a));
    if let Some(cache) = &cache {
        if cache.told_protected {
            notes.push("Windows is configured to treat the disk's cache as protected against loss of power (\"turn off write-cache buffer flushing\"), and sends it no flushes. That is a setting and no proof.".to_owned());
        }
        if !cache.flush {
            notes.push("The disk reports that its cache cannot be flushed.".to_owned());
        }
        if cache.nv_cache {
            notes.push("The disk reports a non-volatile cache, but not whether all of its cache is non-volatile.".to_owned());
        }
    }
    let write_cache = cache.map_or(WriteCache::Unknown, |c| c.write_cache);
    let mut device = BlockDevice::new(disk.name());
    device.write_cache = write_cache;
    device.cache_source = match write_cache {
        WriteCache::Unknown => Source::System,
        _ => Source::Device,
    };
    device.fua = cache.and_then(|c| c.write_through);
    (device.logical_sector, device.physical_sector) = sectors;
    device.rotational = rotational;
    device.model = storage::model(&about);
    if storage::is_nvme(&about) {
        let is_off = cache.is_some_and(|c| c.is_off);
        let answer = disk.identify();
        match answer.map(|t| protocol::data(&t).and_then(nvme::controller)) {
            Ok(Some(controller)) => nvme::weigh(&controller, &mut device, is_off, notes),
            Ok(None) => {
                notes.push("The NVMe controller's answer about itself makes no sense.".to_owned())
            }
            Err(e) => notes.push(format!("The NVMe controller reports no identity: {e}.")),
        }
    }
    (device, cache.is_some_and(|c| c.told_protected))
}

#[cfg(test)]
pub mod tests;
