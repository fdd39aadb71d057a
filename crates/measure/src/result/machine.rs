//! The machine on which the numbers were measured.

use logforce_device::{Facts, Platform, Source, WriteCache};
use logforce_terminal::layout::{WIDTH, wrap};
use logforce_terminal::numbers::bytes;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The system, the filesystem and the device, as far as they are known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Name of the computer in its network.
    pub host: String,
    /// Operating system, such as `Linux`.
    pub os: String,
    /// Kernel release.
    pub kernel: String,
    /// Processor architecture, such as `x86_64`.
    pub arch: String,
    /// Number of processors that this process may use.
    pub cpus: usize,
    /// Measured directory, absolute; empty if only the filesystem matters.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub directory: String,
    /// Filesystem, such as `ext4`.
    pub filesystem: String,
    /// Identity of the filesystem, such as its UUID.
    pub volume: String,
    /// Size of the filesystem, bytes.
    pub capacity: Option<u64>,
    /// Mount point of the filesystem.
    pub mount_point: String,
    /// Mount options of the filesystem.
    pub mount_options: String,
    /// True if the filesystem passes barriers on to the device; null if unknown, or if there is no device.
    pub barriers: Option<bool>,
    /// Kernel name of the device, such as `nvme0n1`.
    pub device: Option<String>,
    /// The device's model.
    pub model: Option<String>,
    /// Write cache: `write-back` (volatile), `write-through` (none, or protected), or `unknown`.
    pub write_cache: String,
    /// Source of `write_cache`: the name of a [`logforce_device::Source`].
    pub write_cache_source: String,
    /// The same source, as the end of a sentence.
    #[serde(skip)]
    pub write_cache_by: &'static str,
    /// True if the device supports FUA writes.
    pub fua: Option<bool>,
    /// True if the device reports itself as rotational. Virtual disks do so by default.
    pub rotational: Option<bool>,
    /// Size of a logical sector, bytes.
    pub logical_sector: Option<u32>,
    /// Size of a physical sector, bytes.
    pub physical_sector: Option<u32>,
    /// Size of the smallest write that rewrites no neighbouring data, bytes.
    pub write_unit: u32,
    /// Notes on the machine, in sentences. A note that invalidates all figures comes first.
    pub notes: Vec<String>,
    /// Reason why times measured here are meaningless. It is among the notes too.
    #[serde(skip)]
    pub caveat: Option<String>,
}

/// The computer, apart from its disks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Name in its network; empty if the system does not report it.
    pub name: String,
    /// Operating system, such as `Linux`.
    pub os: String,
    /// Kernel release.
    pub kernel: String,
    /// Processor architecture, such as `x86_64`.
    pub arch: String,
    /// Number of processors that this process may use.
    pub cpus: usize,
    /// Reason why times measured on this computer are meaningless; `None` if they are meaningful.
    pub caveat: Option<String>,
}

impl Machine {
    /// Combines the facts of a directory and its host.
    pub fn new(facts: &Facts, host: Host) -> Self {
        let device = facts.device.as_ref();
        let Host {
            name,
            os,
            kernel,
            arch,
            cpus,
            caveat,
        } = host;
        let notes = caveat.iter().chain(&facts.notes).cloned().collect();
        let source = device.map_or(Source::Nobody, |d| d.cache_source);
        Machine {
            host: name,
            os,
            kernel,
            arch,
            cpus,
            directory: String::new(),
            filesystem: facts.filesystem.clone(),
            volume: facts.volume.clone(),
            capacity: facts.capacity,
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
            write_cache_source: source.name().to_owned(),
            write_cache_by: source.by(),
            fua: device.and_then(|d| d.fua),
            rotational: device.and_then(|d| d.rotational),
            logical_sector: device.map(|d| d.logical_sector),
            physical_sector: device.map(|d| d.physical_sector),
            write_unit: facts.write_unit(),
            notes,
            caveat,
        }
    }

    /// Adds the directory that is measured.
    pub fn at(mut self, directory: &Path) -> Self {
        let absolute = std::path::absolute(directory);
        let directory = absolute.as_deref().unwrap_or(directory);
        self.directory = directory.display().to_string();
        self
    }

    /// Returns the operating system whose methods are measured; `None` if this program does not know it.
    pub fn platform(&self) -> Option<Platform> {
        let name = |platform: &Platform| match platform {
            Platform::Linux => "Linux",
            Platform::Windows => "Windows",
            _ => "macOS",
        };
        Platform::ALL.into_iter().find(|p| name(p) == self.os)
    }

    /// Returns the known facts as text, each with the name of its field.
    pub fn told(&self) -> Vec<(&'static str, String)> {
        let number = |n: u64| Some(n).filter(|n| *n > 0).map(|n| n.to_string());
        let told = [
            ("host", Some(self.host.clone())),
            ("directory", Some(self.directory.clone())),
            ("volume", Some(self.volume.clone())),
            ("capacity", self.capacity.map(bytes)),
            ("os", Some(self.os.clone())),
            ("kernel", Some(self.kernel.clone())),
            ("arch", Some(self.arch.clone())),
            ("cpus", number(self.cpus as u64)),
            ("filesystem", Some(self.filesystem.clone())),
            ("mount_point", Some(self.mount_point.clone())),
            ("mount_options", Some(self.mount_options.clone())),
            ("device", self.device.clone()),
            ("model", self.model.clone()),
            ("write_cache", Some(self.write_cache.clone())),
            ("fua", self.fua.map(|fua| fua.to_string())),
            ("write_unit", number(self.write_unit.into())),
        ];
        let told = told
            .into_iter()
            .filter_map(|(field, text)| Some((field, text?)));
        told.filter(|(_, text)| !text.is_empty()).collect()
    }

    /// Puts the [`caveat`](Self::caveat), if there is one, above a report for people.
    pub fn under_caveat(&self, report: String) -> String {
        match &self.caveat {
            Some(caveat) => format!("{}\n{report}", wrap(caveat, WIDTH, 0)),
            None => report,
        }
    }

    /// Adds the reservations to a conclusion: meaningless times first, an interruption last.
    pub fn concluded(&self, mut conclusion: String, interrupted: bool) -> String {
        if self.caveat.is_some() {
            conclusion.insert_str(0, "Times measured here mean nothing (see the notes). ");
        }
        if interrupted {
            conclusion
                .push_str(" All of this is based on the measurements until the interruption.");
        }
        conclusion
    }
}

/// Writes one line for people.
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
                "write-back" => "volatile write cache".to_owned(),
                "write-through" => format!("no volatile write cache {}", self.write_cache_by),
                _ => "write cache unknown".to_owned(),
            };
            let fua = match self.fua {
                Some(true) => "FUA",
                Some(false) => "no FUA",
                None => "FUA unknown",
            };
            write!(f, ", {cache}, {fua}")?;
        }
        if self.barriers == Some(false) {
            write!(f, ", without barriers")?;
        }
        write!(f, "; {os} {kernel}, {arch}, {cpus} cpus")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::facts;

    fn host(caveat: Option<&str>) -> Host {
        Host {
            name: String::new(),
            os: "Windows".to_owned(),
            kernel: String::new(),
            arch: "x86_64".to_owned(),
            cpus: 1,
            caveat: caveat.map(str::to_owned),
        }
    }

    #[test]
    fn a_caveat_is_on_top_and_the_first_note() {
        let mut facts = facts();
        facts.notes = vec!["A note.".to_owned()];
        let machine = Machine::new(&facts, host(Some("Not to be believed.")));
        assert_eq!(machine.notes, ["Not to be believed.", "A note."]);
        let text = machine.under_caveat("table".to_owned());
        assert_eq!(text, "Not to be believed.\n\ntable");
        let machine = Machine::new(&facts, host(None));
        assert_eq!(machine.notes, ["A note."]);
        assert_eq!(machine.under_caveat("table".to_owned()), "table");
    }

    #[test]
    fn a_conclusion_says_first_that_times_mean_nothing_and_last_that_it_was_interrupted() {
        let of = |caveat, interrupted| {
            let machine = Machine::new(&facts(), host(caveat));
            machine.concluded("Use dsync here.".to_owned(), interrupted)
        };
        assert_eq!(of(None, false), "Use dsync here.");
        let nothing = of(Some("Not to be believed."), false);
        assert!(nothing.starts_with("Times measured here mean nothing"));
        assert!(nothing.ends_with("Use dsync here."));
        let interrupted = of(None, true);
        assert!(interrupted.starts_with("Use dsync here."));
        assert!(interrupted.contains("until the interruption"));
    }
}
