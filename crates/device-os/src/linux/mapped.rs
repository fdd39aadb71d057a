//! Devices of the device mapper: the targets that they consist of decide the guarantee of a flush and of a write.

use super::answers::{self, Cache};
use super::block::{self, Located};
use super::layers::{Mapping, Walk};
use std::io;

/// Targets that keep each block at one location.
const FOR_GOOD: &[&str] = &[
    "linear",
    "striped",
    "crypt",
    "multipath",
    "mirror",
    "raid",
    "integrity",
    "delay",
    "unstriped",
    "switch",
    "log-writes",
    "dust",
    "snapshot-origin",
];
/// Targets that record the location of a block at a flush.
const AT_FLUSH: &[&str] = &[
    "thin",
    "thin-pool",
    "cache",
    "writecache",
    "snapshot",
    "snapshot-merge",
    "era",
    "clone",
    "vdo",
    "zoned",
    "ebs",
];
/// Targets for tests, which drop or fail writes.
const KEEPS_NOTHING: &[&str] = &["flakey", "error", "zero"];

/// Beginnings of the identifiers that programs give to devices that consist of [`FOR_GOOD`] targets.
const PLAIN: &[&str] = &["CRYPT-", "mpath-", "DMRAID-"];
/// Beginnings of the identifiers of devices that consist of [`AT_FLUSH`] targets.
const LOCATED: &[&str] = &["stratis-", "VDO-"];

impl Walk<'_> {
    /// Returns the behaviour of a mapped device; `None` for a device of another driver.
    pub fn mapping(&self, device: &Located) -> io::Result<Option<Mapping>> {
        if !device.is_of(&["dm-"]) {
            return Ok(None);
        }
        if let Some(answer) = answers::stored(device, self.roots)?
            && answer.cache == Cache::Mapped
        {
            return Ok(Some(by_targets(&answer.said)));
        }
        let uuid = |device: &Located| device.line("dm/uuid");
        let own = uuid(device)?.unwrap_or_default();
        let begins = |with: &[&str]| with.iter().any(|kind| own.starts_with(kind));
        if begins(PLAIN) || own.starts_with("part") && own.contains("-mpath-") {
            return Ok(Some(Mapping::ForGood));
        }
        if begins(LOCATED) {
            return Ok(Some(Mapping::AtFlush));
        }
        if !own.starts_with("LVM-") {
            return Ok(Some(Mapping::Unseen(
                "its targets cannot be seen in /sys, and a target that is not of the kernel may ignore flushes. \
                 Run `logforce doctor` as root, which reads them"
                    .to_owned(),
            )));
        }
        // LVM marks the parts of a volume by a suffix: a thin pool is `LVM-…-tpool`.
        for part in device.made_of()? {
            let below = match block::by_name(&part, self.roots)? {
                Some(part) => uuid(&part)?.unwrap_or_default(),
                None => return Ok(Some(Mapping::AtFlush)),
            };
            let suffix = below.strip_prefix("LVM-").and_then(|u| u.split_once('-'));
            if !matches!(suffix, None | Some((_, "real"))) {
                return Ok(Some(Mapping::AtFlush));
            }
        }
        Ok(Some(Mapping::ForGood))
    }
}

fn by_targets(targets: &str) -> Mapping {
    let targets: Vec<&str> = targets.split(',').collect();
    let is_all = |of: &[&[&str]]| targets.iter().all(|t| of.iter().any(|of| of.contains(t)));
    if let Some(target) = targets.iter().find(|t| KEEPS_NOTHING.contains(t)) {
        return Mapping::KeepsNothing(format!(
            "its target `{target}` drops or fails writes on purpose: it is made for tests"
        ));
    }
    if is_all(&[FOR_GOOD]) {
        return Mapping::ForGood;
    }
    if is_all(&[FOR_GOOD, AT_FLUSH]) {
        return Mapping::AtFlush;
    }
    Mapping::Foreign(format!(
        "its targets are {}, of which not all are known here. Ask the maker of the target whether it passes flushes \
         on",
        targets.join(", ")
    ))
}
