//! Bus, driver and maker of a block device, as far as they matter to its word: a bridge may hide a cache, a
//! hypervisor or a server may keep the data elsewhere.

use super::block::Located;
use super::sysfs;
use logforce_device::Source;
use std::io;

/// Connection of a device to this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attachment {
    /// Behind a USB bridge, which may hide the disk's cache.
    Usb,
    /// Offered by a hypervisor; the name of the kind of disk.
    Virtual(&'static str),
    /// Served by a program or another machine; the protocol.
    Served(&'static str),
    /// NVMe controller of this machine.
    Nvme,
    /// SCSI or SATA disk, with the name of the host adapter's driver, if that is visible.
    Scsi(String),
    /// Anything else.
    Other,
}

/// Drivers of devices that a program or another machine serves.
const SERVED: &[(&str, &str)] = &[
    ("nbd", "network block device"),
    ("rbd", "Ceph RBD"),
    ("rnbd", "RDMA network block device"),
    ("zd", "zvol, by its property sync"),
    ("drbd", "DRBD"),
    ("ublkb", "ublk"),
    ("etherd!e", "ATA over Ethernet"),
];

/// Drivers of host adapters that keep disks behind a cache in the adapter.
const RAID: &[&str] = &[
    "megaraid_sas",
    "hpsa",
    "smartpqi",
    "aacraid",
    "arcmsr",
    "3w-sas",
    "3w-9xxx",
];

/// Models whose kind the name of the device does not show: the beginning of vendor and model, and the kind.
const MODELS: &[(&str, Model)] = &[
    (
        "Amazon Elastic Block Store",
        Model::Network("AWS EBS volume"),
    ),
    (
        "Amazon EC2 NVMe Instance Storage",
        Model::Ephemeral("AWS instance store"),
    ),
    ("nvme_card-pd", Model::Network("Google persistent disk")),
    ("nvme_card", Model::Ephemeral("Google local SSD")),
    (
        "Google PersistentDisk",
        Model::Network("Google persistent disk"),
    ),
    ("Google EphemeralDisk", Model::Ephemeral("Google local SSD")),
    (
        "MSFT NVMe Accelerator",
        Model::Network("Azure managed disk"),
    ),
    (
        "Microsoft NVMe Direct Disk",
        Model::Ephemeral("Azure local disk"),
    ),
    ("Msft Virtual Disk", Model::Virtual("Hyper-V disk")),
    ("QEMU ", Model::Virtual("QEMU disk")),
    ("VBOX ", Model::Virtual("VirtualBox disk")),
    ("VMware ", Model::Virtual("VMware disk")),
    ("APPLE SSD", Model::LosesAtReset),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Model {
    Network(&'static str),
    Ephemeral(&'static str),
    Virtual(&'static str),
    LosesAtReset,
}

impl Located {
    /// Returns the model as the device gives it.
    pub fn model(&self) -> io::Result<Option<String>> {
        // The head of an NVMe subsystem with several controllers has its model one level up.
        Ok(match self.line("device/model")? {
            None if self.is_of(&["nvme"]) => self.line("../model")?,
            model => model,
        })
    }

    /// Returns vendor and model as the device gives them; empty if it gives neither.
    fn vendor_and_model(&self) -> io::Result<String> {
        let model = self.model()?;
        let vendor = self.line("device/vendor")?;
        // The vendor of virtio and PCI devices is a number.
        let vendor = vendor.filter(|v| !v.starts_with("0x") && v != "ATA");
        let words = [vendor, model].into_iter().flatten();
        Ok(words.collect::<Vec<_>>().join(" "))
    }

    fn known(&self) -> io::Result<Option<Model>> {
        let model = self.vendor_and_model()?;
        let known = MODELS.iter().find(|(name, _)| model.starts_with(name));
        Ok(known.map(|(_, model)| *model))
    }

    /// Returns how the device is attached.
    pub fn attachment(&self) -> io::Result<Attachment> {
        if let Some((_, protocol)) = SERVED.iter().find(|(name, _)| self.is_of(&[name])) {
            return Ok(Attachment::Served(protocol));
        }
        if let Some(Model::Network(kind) | Model::Ephemeral(kind) | Model::Virtual(kind)) =
            self.known()?
        {
            return Ok(Attachment::Virtual(kind));
        }
        let name = self.whole_name();
        let is_named = |prefix| {
            name.strip_prefix(prefix)
                .is_some_and(|n: &str| n.starts_with(|c: char| c.is_ascii_lowercase()))
        };
        let is_nvme = self.is_of(&["nvme"]);
        Ok(if is_nvme && self.is_over_fabric()? {
            Attachment::Served("NVMe over a network")
        } else if self.is_behind("session") {
            Attachment::Served("iSCSI")
        } else if is_named("vd") || self.is_behind("virtio") {
            Attachment::Virtual("virtio disk")
        } else if is_named("xvd") || self.is_behind("vbd-") {
            Attachment::Virtual("Xen disk")
        } else if self.is_behind("VMBUS:") {
            Attachment::Virtual("Hyper-V disk")
        } else if self.is_behind_usb() {
            Attachment::Usb
        } else if is_nvme {
            Attachment::Nvme
        } else if self.is_behind("pseudo_") || self.is_behind("tcm_loop_adapter_") {
            // Targets of the kernel that keep their blocks in memory or in a file.
            Attachment::Served("SCSI target in software")
        } else if is_named("sd") {
            Attachment::Scsi(self.host_driver()?)
        } else if self.is_made_by_software() {
            Attachment::Served("a driver in software")
        } else {
            Attachment::Other
        })
    }

    /// Returns the kind of the device and its model, in a few words.
    pub fn in_words(&self) -> io::Result<String> {
        let kinds = [
            ("loop", "loop device"),
            ("dm-", "mapped device"),
            ("md", "RAID"),
            ("md_d", "RAID"),
            ("bcache", "bcache"),
            ("zram", "memory"),
            ("ram", "memory"),
            ("nullb", "memory"),
        ];
        let kind = kinds.iter().find(|(driver, _)| self.is_of(&[driver]));
        let kind = match kind {
            Some((_, kind)) => (*kind).to_owned(),
            None => self.attachment()?.in_words(),
        };
        let name = match self.line("dm/name")? {
            Some(name) => Some(name),
            None => self.model()?,
        };
        let words = [Some(kind).filter(|k| !k.is_empty()), name];
        Ok(words.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }

    /// Returns the party that speaks for the device.
    pub fn speaker(&self) -> io::Result<Source> {
        Ok(match self.attachment()? {
            Attachment::Served(_) => Source::Server,
            Attachment::Virtual(_) => Source::Hypervisor,
            _ => Source::Device,
        })
    }

    /// Returns true if the device loses its cache when the machine is reset. Seen with the NVMe controllers of
    /// Apple's own processors: unflushed writes were gone after a reset without loss of power.
    pub fn loses_cache_at_reset(&self) -> io::Result<bool> {
        Ok(self.known()? == Some(Model::LosesAtReset))
    }

    /// Returns remarks on the device that no verdict contains, in sentences.
    pub fn remarks(&self) -> io::Result<Vec<String>> {
        let name = self.whole_name();
        let mut remarks = Vec::new();
        match self.known()? {
            Some(Model::Network(kind)) => remarks.push(format!(
                "{name} is a network block device of a cloud ({kind}): where a flushed write is kept is the \
                 provider's word."
            )),
            Some(Model::Ephemeral(kind)) => remarks.push(format!(
                "{name} is ephemeral ({kind}): when the virtual machine stops, is terminated or moves to another \
                 host, all data on it is gone, whatever was flushed."
            )),
            _ => {}
        }
        match self.attachment()? {
            Attachment::Virtual("Hyper-V disk" | "Azure managed disk") => remarks.push(format!(
                "{name}: on Azure the host caches it as its caching mode says (None, ReadOnly, ReadWrite). Only the \
                 instance metadata service shows the mode."
            )),
            Attachment::Virtual("virtio disk" | "QEMU disk") => remarks.push(format!(
                "{name} is a virtual disk: nothing in the guest shows whether the host keeps flushed writes (QEMU \
                 with cache=unsafe looks the same as with cache=writeback)."
            )),
            Attachment::Usb => remarks.push(format!(
                "{name} is behind USB: whether the bridge passes flushes on is its word."
            )),
            Attachment::Scsi(driver) if RAID.contains(&&*driver) => remarks.push(format!(
                "{name} is behind a RAID controller ({driver}): its cache policy, its battery and the caches of its \
                 disks are not visible here. Ask the controller's program (storcli, perccli, ssacli): write policy, \
                 energy pack, disk cache."
            )),
            _ => {}
        }
        if let Some(mode) = self.line("bcache/cache_mode")?
            && mode.contains("[writeback]")
        {
            remarks.push(format!(
                "{name} is a bcache in writeback mode: a flushed write may be on the cache device only, and is lost \
                 with it."
            ));
        }
        Ok(remarks)
    }

    /// Returns true for a device without hardware of an unknown driver.
    fn is_made_by_software(&self) -> bool {
        let known = [
            "loop", "dm-", "md", "md_d", "bcache", "nvme", "ram", "zram", "nullb",
        ];
        self.whole.to_string_lossy().contains("/virtual/block/") && !self.is_of(&known)
    }

    /// Returns true if a RAID controller offers the device. Its cache answers, so that a hard disk behind it can
    /// seem faster than a hard disk.
    pub fn is_behind_raid(&self) -> io::Result<bool> {
        Ok(matches!(self.attachment()?, Attachment::Scsi(driver) if RAID.contains(&&*driver)))
    }

    fn is_over_fabric(&self) -> io::Result<bool> {
        let is_remote = |transport: Option<String>| {
            transport.is_some_and(|t| ["tcp", "rdma", "fc"].contains(&&*t))
        };
        if is_remote(self.line("device/transport")?) {
            return Ok(true);
        }
        // The controllers of a subsystem lie beside its head.
        let subsystem = self.whole.join("..");
        for name in sysfs::names(&subsystem)?.unwrap_or_default() {
            let is_controller = name
                .strip_prefix("nvme")
                .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
            if is_controller && is_remote(self.line(&format!("../{name}/transport"))?) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the driver of the host adapter of a SCSI disk, such as `megaraid_sas`; empty if unknown.
    fn host_driver(&self) -> io::Result<String> {
        let parts = self.whole.components();
        let mut names = parts.map(|part| part.as_os_str().to_string_lossy());
        let host = names.find(|name| {
            name.strip_prefix("host")
                .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        });
        let Some(host) = host else {
            return Ok(String::new());
        };
        let above = self.whole.ancestors().find(|a| a.ends_with(&*host));
        let driver = above.map(|a| a.join("scsi_host").join(&*host).join("proc_name"));
        Ok(match driver {
            Some(file) => sysfs::line(&file)?.unwrap_or_default(),
            None => String::new(),
        })
    }

    /// Returns true if the device is behind USB, whatever model it claims to be.
    pub fn is_behind_usb(&self) -> bool {
        self.is_behind("usb")
    }

    /// Returns true if the device is attached to a bus or a driver with this name and a number.
    fn is_behind(&self, bus: &str) -> bool {
        self.whole.components().any(|part| {
            let part = part.as_os_str().to_string_lossy();
            part.strip_prefix(bus)
                .is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit()))
        })
    }
}

impl Attachment {
    /// Returns the kind of the device in a few words; empty if nothing is known.
    pub fn in_words(&self) -> String {
        match self {
            Attachment::Usb => "disk behind USB".to_owned(),
            Attachment::Virtual(kind) => (*kind).to_owned(),
            Attachment::Served(protocol) => format!("served by another party ({protocol})"),
            Attachment::Nvme => "NVMe disk".to_owned(),
            Attachment::Scsi(driver) if driver.is_empty() => "SCSI or SATA disk".to_owned(),
            Attachment::Scsi(driver) => format!("SCSI or SATA disk ({driver})"),
            Attachment::Other => String::new(),
        }
    }
}
