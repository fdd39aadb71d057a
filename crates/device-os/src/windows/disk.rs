//! What follows from the answers of the disk below a volume.
//!
//! The driver that is asked is behind [`Ask`], so that made-up answers go the same way as a
//! driver's: Wine answers hardly one of the questions.

use super::{protocol, storage};
use crate::nvme;
use logforce_device::{BlockDevice, Source, WriteCache};
use std::io;

/// What a disk is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// What it is: `StorageDeviceProperty`.
    Device,
    /// Its sectors: `StorageAccessAlignmentProperty`.
    Alignment,
    /// Whether seeking costs: `StorageDeviceSeekPenaltyProperty`.
    SeekPenalty,
    /// Its cache: `StorageDeviceWriteCacheProperty`.
    WriteCache,
}

/// A disk that can be asked.
pub trait Ask {
    /// Such as `PhysicalDrive0`.
    fn name(&self) -> &str;

    /// The driver's answer, in its own bytes.
    fn ask(&self, question: Question) -> io::Result<Vec<u8>>;

    /// What an NVMe controller says of itself, in the driver's own bytes ([`protocol::data`]).
    fn identify(&self) -> io::Result<Vec<u8>>;
}

/// What lies below a filesystem, as the facts say it.
#[derive(Debug, PartialEq, Eq)]
pub struct Below {
    pub device: Option<BlockDevice>,
    /// The system sends flushes.
    pub barriers: bool,
    /// What it was told.
    pub options: String,
}

/// Asks `disk`; `None` where there is none to ask.
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

/// The disk's own words, and whether Windows is configured to send its cache no flush.
fn describe(disk: &impl Ask, notes: &mut Vec<String>) -> (BlockDevice, bool) {
    let mut ask = |question, what: &str| match disk.ask(question) {
        Ok(answer) => Some(answer),
        Err(e) => {
            notes.push(format!("The disk does not say {what}: {e}."));
            None
        }
    };
    let sectors = ask(Question::Alignment, "how large its sectors are")
        .and_then(|a| storage::sectors(&a))
        .unwrap_or((512, 512));
    let rotational =
        ask(Question::SeekPenalty, "whether it turns").and_then(|a| storage::turns(&a));
    let about = ask(Question::Device, "what it is").unwrap_or_default();
    let cache = ask(Question::WriteCache, "what cache it has").and_then(|a| storage::cache(&a));
    if let Some(cache) = &cache {
        if cache.told_protected {
            notes.push("Windows is configured to treat the disk's cache as protected against loss of power (\"turn off write-cache buffer flushing\"), and sends it no flushes. That is a setting, and no proof.".to_owned());
        }
        if !cache.flush {
            notes.push("The disk says that its cache cannot be flushed.".to_owned());
        }
        if cache.nv_cache {
            notes.push("The disk says that it has a cache that is not volatile; whether all of its cache is, it does not say.".to_owned());
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
                notes.push("The NVMe controller's answer on what it is makes no sense.".to_owned())
            }
            Err(e) => notes.push(format!("The NVMe controller does not say what it is: {e}.")),
        }
    }
    (device, cache.is_some_and(|c| c.told_protected))
}

#[cfg(test)]
pub mod tests;
