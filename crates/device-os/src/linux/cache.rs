//! Volatile cache of a device: the kernel's setting, the record of its driver, and the device's own answer. The
//! weakest of the three counts, and a contradiction is named.
//!
//! The setting alone promises nothing: it may have been changed by any program, and the kernel assumes `write
//! through` without an answer of the device (SCSI disks without a caching page, virtual disks without a flush).

use super::answers::{self, Answer, Cache};
use super::attachment::Attachment;
use super::block::{Located, reading};
use super::sysfs::{self, Roots};
use logforce_device::{Assessment, Guarantee, Reading, Source, Verdict, WriteCache};
use std::io;

/// Reason why a SCSI disk's `cache_type` is not its answer. The kernel writes `write through` for a disk without a
/// caching page, on any bus, and stores `temporary write through` without a command to the disk.
const SCSI_ASSUMED: &str = "the kernel assumes this of a SCSI disk that does not answer, and an administrator can \
                            set it without asking the disk";

/// Guarantees of a device, by what is known of its cache.
pub struct Judged {
    /// Setting of the kernel, which decides whether flushes are sent.
    pub cache: WriteCache,
    /// Party that answers for the cache.
    pub source: Source,
    /// Guarantee of a flush that the layers above pass on.
    pub flushed: Assessment,
    /// Guarantee of a write that nothing flushed.
    pub written: Guarantee,
    /// Everything that was read for it.
    pub readings: Vec<Reading>,
}

/// Record of a driver about the cache of its device.
struct Driver {
    is_volatile: bool,
    /// Reason why `write through` may not be the device's answer.
    assumed: Option<&'static str>,
    reading: Reading,
}

impl Located {
    /// Judges the device's cache.
    pub fn judge(&self, roots: &Roots) -> io::Result<Judged> {
        let name = self.whole_name();
        let who = self.speaker()?;
        let (cache, setting) = (
            self.write_cache()?,
            format!("/sys/block/{name}/queue/write_cache"),
        );
        let driver = self.driver()?;
        let asked = answers::stored(self, roots)?;
        let mut readings = Vec::new();
        readings.extend(driver.as_ref().map(|d| d.reading.clone()));
        if let Some(answer) = &asked {
            readings.push(reading(
                "write cache, device",
                &answer.said,
                &answer.command,
            ));
        }
        let say = |guarantee, verdict, source, words: String| {
            Assessment::new(guarantee, verdict, source, words)
        };
        let believed = || {
            format!(
                "the kernel is configured to believe that it has no volatile cache ({setting} says `write through`) \
                 and sends it no flushes, but"
            )
        };
        let said = asked.as_ref().map(|a| (a.cache, dated(a)));
        let flushed = match (cache, said, &driver) {
            (WriteCache::Through, Some((Cache::On, dated)), _) => say(
                Guarantee::OsCrash,
                Verdict::Contradicted,
                who,
                format!(
                    "{} the device says that its cache is on ({dated})",
                    believed()
                ),
            ),
            (WriteCache::Through, Some((Cache::Off | Cache::None, dated)), _) => say(
                Guarantee::PowerLoss,
                Verdict::Declared,
                who,
                format!("{} ({dated})", who.says_no_cache(&name)),
            ),
            (WriteCache::Through, _, Some(driver)) if driver.is_volatile => say(
                Guarantee::OsCrash,
                Verdict::Contradicted,
                who,
                format!(
                    "{} it says itself that it has one (`{}` in {})",
                    believed(),
                    driver.reading.value,
                    driver.reading.from
                ),
            ),
            (WriteCache::Through, None, Some(Driver { assumed: None, .. })) => say(
                Guarantee::PowerLoss,
                Verdict::Declared,
                who,
                who.says_no_cache(&name),
            ),
            (WriteCache::Through, said, driver) => {
                let assumed = driver.as_ref().and_then(|d| d.assumed);
                let why = match (said, assumed) {
                    (Some((_, dated)), _) => format!("the device does not say ({dated})"),
                    (None, Some(assumed)) => assumed.to_owned(),
                    (None, None) => "the device itself was not asked".to_owned(),
                };
                say(
                    Guarantee::OsCrash,
                    Verdict::Unknown,
                    Source::Setting,
                    format!(
                        "no party reports that it has no volatile cache: the kernel treats it as `write through` ({setting}) \
                         and sends no flush, and {why}. {}",
                        self.remedy(asked.is_some())?
                    ),
                )
            }
            (WriteCache::Back, ..) => say(
                Guarantee::PowerLoss,
                Verdict::Declared,
                who,
                who.says_flushed(),
            ),
            _ => say(
                Guarantee::PowerLoss,
                Verdict::Unknown,
                Source::Nobody,
                "it is unknown whether the device has a volatile cache".to_owned(),
            ),
        };
        let written = match flushed.guarantee {
            _ if self.loses_cache_at_reset()? => Guarantee::ProcessCrash,
            guarantee if cache == WriteCache::Through => guarantee,
            _ => Guarantee::OsCrash,
        };
        Ok(Judged {
            cache,
            source: flushed.source,
            flushed,
            written,
            readings,
        })
    }

    /// Returns the way to find out whether the device has a volatile cache.
    fn remedy(&self, is_asked: bool) -> io::Result<&'static str> {
        Ok(match self.attachment()? {
            _ if is_asked => "Only a power cut decides (`logforce powercut`)",
            Attachment::Usb => {
                "`logforce doctor --ask` as root asks the disk behind the bridge; otherwise only a power cut decides \
                 (`logforce powercut`)"
            }
            Attachment::Virtual(_) if !self.has_command() => {
                "Ask the operator of the host whether a completed write is on a medium"
            }
            Attachment::Nvme | Attachment::Scsi(_) | Attachment::Virtual(_) => {
                "Run `logforce doctor` as root, which asks the device"
            }
            _ => {
                "No command asks this kind of device: only a power cut decides (`logforce powercut`)"
            }
        })
    }

    /// Returns true if a command asks this kind of device: NVMe and SCSI disks, virtual ones included.
    fn has_command(&self) -> bool {
        self.is_of(&["nvme"]) || self.whole_name().starts_with("sd")
    }

    /// Returns the record of the driver. It does not depend on `queue/write_cache`, which any program may have set.
    fn driver(&self) -> io::Result<Option<Driver>> {
        let name = self.whole_name();
        let at = |file: &str| format!("/sys/block/{name}/{file}");
        // The driver of NVMe sets both features if the controller reports a volatile cache (VWC), and only the
        // setting of the cache can be changed afterwards.
        if self.is_of(&["nvme"]) {
            let fua = self.line("queue/fua")?;
            return Ok(fua.map(|fua| Driver {
                is_volatile: fua != "0",
                assumed: None,
                reading: reading(
                    "FUA, set with a volatile cache by the NVMe driver",
                    &fua,
                    &at("queue/fua"),
                ),
            }));
        }
        if let Some(cache) = self.line("cache_type")? {
            return Ok(Some(Driver {
                is_volatile: cache.starts_with("write back"),
                assumed: self.virtio_assumed()?,
                reading: reading(
                    "write cache, virtio configuration",
                    &cache,
                    &at("cache_type"),
                ),
            }));
        }
        let disks = self.whole.join("device/scsi_disk");
        for disk in sysfs::names(&disks)?.unwrap_or_default() {
            let file = format!("device/scsi_disk/{disk}/cache_type");
            if let Some(cache) = self.line(&file)? {
                return Ok(Some(Driver {
                    is_volatile: cache.starts_with("write back"),
                    assumed: Some(SCSI_ASSUMED),
                    reading: reading("write cache, SCSI driver", &cache, &at(&file)),
                }));
            }
        }
        Ok(None)
    }

    /// Returns the reason why a virtio disk's `cache_type` is an assumption. Without the features FLUSH (bit 9)
    /// and CONFIG_WCE (bit 11) the device describes no cache (virtio 1.2, 5.2.6.2). The default drive of
    /// Firecracker is one of these, and its host keeps written data in memory.
    fn virtio_assumed(&self) -> io::Result<Option<&'static str>> {
        let features = self.line("device/features")?;
        let has = |bit: usize| {
            let bits = features.as_ref().map(|f| f.as_bytes());
            bits.is_none_or(|bits| bits.get(bit) == Some(&b'1'))
        };
        Ok((!has(9) && !has(11)).then_some(
            "the virtual disk offers no flush and describes no cache (virtio features 9 and 11), so a write may be in \
             the host's memory",
        ))
    }
}

fn dated(answer: &Answer) -> String {
    format!(
        "{}: {}, asked at {} UTC",
        answer.command,
        answer.said,
        logforce_device::date::minute(answer.at)
    )
}
