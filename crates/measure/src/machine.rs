//! What the numbers were measured on.

use logforce_device::{Facts, WriteCache};
use serde::Serialize;

/// The system, the filesystem and the device, as far as they tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Operating system, such as `Linux`.
    pub os: String,
    /// Kernel release.
    pub kernel: String,
    /// Processor architecture, such as `x86_64`.
    pub arch: String,
    /// Processors that this process may use.
    pub cpus: usize,
    /// Filesystem, such as `ext4`.
    pub filesystem: String,
    /// Where it is mounted.
    pub mount_point: String,
    /// Its mount options.
    pub mount_options: String,
    /// Whether it passes barriers on to the device.
    pub barriers: bool,
    /// Kernel name of the device, such as `nvme0n1`.
    pub device: Option<String>,
    /// The device's model.
    pub model: Option<String>,
    /// `write-back` (volatile), `write-through` (none, or protected), or `unknown`.
    pub write_cache: String,
    /// Whether it takes FUA writes.
    pub fua: Option<bool>,
    /// Whether it says that it turns. Virtual disks say so by default.
    pub rotational: Option<bool>,
    /// Logical sector, bytes.
    pub logical_sector: Option<u32>,
    /// Physical sector, bytes.
    pub physical_sector: Option<u32>,
    /// The smallest write that rewrites no neighbour, bytes.
    pub write_unit: u32,
    /// What else is worth knowing, in sentences.
    pub notes: Vec<String>,
}

/// What computer it is, apart from its disks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Operating system, such as `Linux`.
    pub os: String,
    /// Kernel release.
    pub kernel: String,
    /// Processor architecture, such as `x86_64`.
    pub arch: String,
    /// Processors that this process may use.
    pub cpus: usize,
}

impl Machine {
    /// From the facts of a directory and its host.
    pub fn new(facts: &Facts, host: Host) -> Self {
        let device = facts.device.as_ref();
        let Host {
            os,
            kernel,
            arch,
            cpus,
        } = host;
        Machine {
            os,
            kernel,
            arch,
            cpus,
            filesystem: facts.filesystem.clone(),
            mount_point: facts.mount_point.clone(),
            mount_options: facts.mount_options.clone(),
            barriers: facts.barriers,
            device: device.map(|d| d.name.clone()),
            model: device.map(|d| d.model.clone()).filter(|m| !m.is_empty()),
            write_cache: match device.map(|d| d.write_cache) {
                Some(WriteCache::Back) => "write-back",
                Some(WriteCache::Through) => "write-through",
                _ => "unknown",
            }
            .to_owned(),
            fua: device.and_then(|d| d.fua),
            rotational: device.and_then(|d| d.rotational),
            logical_sector: device.map(|d| d.logical_sector),
            physical_sector: device.map(|d| d.physical_sector),
            write_unit: facts.write_unit(),
            notes: facts.notes.clone(),
        }
    }
}

/// One line for people.
impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Machine {
            filesystem,
            kernel,
            arch,
            cpus,
            os,
            ..
        } = self;
        write!(f, "{filesystem}")?;
        match &self.device {
            Some(device) => write!(f, " on {device}")?,
            None => write!(f, ", no block device")?,
        }
        if let Some(model) = &self.model {
            write!(f, " ({model})")?;
        }
        if self.device.is_some() {
            let cache = match self.write_cache.as_str() {
                "write-back" => "volatile write cache",
                "write-through" => "no volatile write cache",
                _ => "write cache unknown",
            };
            let fua = match self.fua {
                Some(true) => "FUA",
                Some(false) => "no FUA",
                None => "FUA unknown",
            };
            write!(f, ", {cache}, {fua}")?;
        }
        if !self.barriers {
            write!(f, ", mounted without barriers")?;
        }
        write!(f, "; {os} {kernel}, {arch}, {cpus} cpus")
    }
}
