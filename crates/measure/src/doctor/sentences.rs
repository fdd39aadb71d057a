//! Answers about FUA, atomic writes, power-loss protection and zeroes by the device, each as a sentence that
//! begins with its subject.

use super::sync;
use logforce_device::{Facts, Layer, Platform, Reading, WriteCache};

/// Returns the answer about FUA.
pub fn fua(facts: &Facts) -> String {
    let survives = {
        let a = sync(facts);
        format!("A force survives {} ({}).", a.granted(), a.verdict)
    };
    let device = facts.device.as_ref();
    match (device.and_then(|d| d.fua), facts.platform) {
        _ if device.is_none() => format!("FUA: no device is known. {survives}"),
        (Some(true), _) => {
            let a = facts.write_through();
            format!(
                "FUA: yes; a write-through survives {} ({}).",
                a.granted(),
                a.verdict
            )
        }
        (Some(false), Platform::Linux)
            if device.is_some_and(|d| d.write_cache == WriteCache::Through) =>
        {
            format!("FUA: none, and the kernel sends no flushes (`write through`). {survives}")
        }
        (Some(false), Platform::Linux) => {
            format!("FUA: none; the kernel flushes instead. {survives}")
        }
        (Some(false), _) => {
            let a = facts.write_through();
            format!(
                "FUA: none; a write-through survives {} ({}), and nothing flushes in its place. {survives}",
                a.granted(),
                a.verdict
            )
        }
        (None, _) => format!("FUA: unknown. {survives}"),
    }
}

/// Returns the answer about writes that a crash cannot tear.
pub fn atomic(facts: &Facts) -> String {
    const PAGES: [u32; 3] = [4096, 8192, 16384];
    match facts.atomic_write {
        None => {
            let by_device = match offering(facts, "atomic write") {
                Some(layer) => format!(
                    "{} offers some, and {} does not pass them on",
                    layer.name, facts.filesystem
                ),
                None => "none are offered".to_owned(),
            };
            format!(
                "Atomic writes: {by_device}, so a crash can tear a page: keep doublewrite and full-page images on."
            )
        }
        Some(a) => {
            let sizes = PAGES
                .iter()
                .filter(|p| (a.unit_min..=a.unit_max).contains(*p));
            let sizes: Vec<String> = sizes.map(|p| format!("{} KiB", p >> 10)).collect();
            format!(
                "Atomic writes: {} to {} bytes (RWF_ATOMIC); they cover pages of {}, in a program that uses them.",
                a.unit_min,
                a.unit_max,
                match sizes.is_empty() {
                    true => "no usual size".to_owned(),
                    false => sizes.join(", "),
                }
            )
        }
    }
}

/// Returns the first layer that reports a property with such a name, and a value other than zero.
fn offering<'a>(facts: &'a Facts, what: &str) -> Option<&'a Layer> {
    let offers = |r: &Reading| r.what.starts_with(what) && r.value != "0";
    let mut layers = facts.layers.iter();
    layers.find(|layer| layer.readings.iter().any(offers))
}

/// Returns the answer about ranges that the device zeroes without writing them.
pub fn zeroes(facts: &Facts) -> String {
    let device = facts.device.as_ref();
    let answer = match (
        device.map(|d| d.zeroes),
        offering(facts, "zeroes by the device"),
    ) {
        (None, _) => "no device is known.".to_owned(),
        (Some(Some(true)), _) => format!(
            "{} offers them. `Tuning::device_zeroes` has the log use them where {} passes them on (ext4 does).",
            device.map_or("", |d| &d.name),
            facts.filesystem
        ),
        (Some(Some(false)), Some(layer)) => {
            format!(
                "{} offers them, and a layer above it does not pass them on.",
                layer.name
            )
        }
        (Some(Some(false)), None) => "not offered.".to_owned(),
        (Some(None), _) => "unknown: the system does not say (Linux does from 6.17 on).".to_owned(),
    };
    format!("Device zeroes: {answer}")
}

/// Returns the answer about power-loss protection, as far as it is declared.
pub fn protection(facts: &Facts) -> String {
    let answer = match &facts.device {
        None => "no device is known.",
        Some(d) if d.write_cache == WriteCache::Through && d.cache_source.is_device() => {
            "declared: the device needs no flush, so it has no volatile cache or a protected one."
        }
        Some(d) if d.write_cache == WriteCache::Through => {
            "not declared by the device: only the kernel's setting says that no flush is needed."
        }
        Some(d) if d.write_cache == WriteCache::Back => {
            "none is declared: the device asks for flushes. A drive with capacitors may say so in its data sheet only."
        }
        Some(_) => "unknown.",
    };
    format!("Power-loss protection: {answer}")
}
