//! Changes to logs.

use super::made::Made;
use crate::mutants::{Files, Numbers};

/// Returns changes that random numbers seldom produce.
pub fn one_by_one(made: &Made) -> Vec<(String, Files)> {
    let mut all = Vec::new();
    let mut changed = |what: String, base: &Files, change: &dyn Fn(&mut Files)| {
        let mut files = base.clone();
        change(&mut files);
        all.push((what, files));
    };
    // Appends of several records lose each part once. A repaired log loses each batch that records the
    // repair.
    for name in ["sizes, closed", "repaired, crashed"] {
        let base = made.latest(name);
        for (file, at) in batches(base) {
            let what = format!("{name}: {file}, batch at {at}");
            changed(what, base, &|files| {
                files.get_mut(&file).unwrap()[at + 100] ^= 1;
            });
        }
        for file in base.keys() {
            let what = format!("{name}: {file} removed");
            changed(what, base, &|files| {
                files.remove(file);
            });
        }
    }
    // Truncated records come back, with correct checksums.
    for (name, base) in made.all.iter().filter(|(n, _)| n.starts_with("torn")) {
        for (file, at) in batches(base) {
            let header = &base[&file][at..at + 128];
            if header[32..40] == header[64..72] {
                continue;
            }
            changed(format!("{name}: {file}, range of {at}"), base, &|files| {
                let header = &mut files.get_mut(&file).unwrap()[at..];
                header.copy_within(32..40, 64);
                seal(&mut header[..128]);
            });
        }
    }
    // Removed records can be read again, the batch that removed them cannot, and the anchor is the old one.
    let damaged = made.latest("repaired, damaged");
    let before = &damaged["control"];
    let (base, (file, at)) = (made.latest("repaired, crashed"), &made.damaged);
    let (went_on, _) = batches(base).pop().unwrap();
    for is_removed in [false, true] {
        let what = format!("{file} is whole again, {went_on} removed: {is_removed}");
        changed(what, base, &|files| {
            let there = files.get_mut(file).unwrap();
            there[*at..].copy_from_slice(&damaged[file][*at..]);
            there[at + 100] ^= 4;
            let control = files.get_mut("control").unwrap();
            for slot in [0, 65_536] {
                control[slot + 68..slot + 104].copy_from_slice(&before[68..104]);
                seal(&mut control[slot..slot + 4096]);
            }
            match is_removed {
                true => drop(files.remove(&went_on)),
                false => files.get_mut(&went_on).unwrap()[UNIT + 100] ^= 1,
            }
        });
    }
    all
}

/// Replaces a file by an earlier or later version.
pub fn stale(
    files: &mut Files,
    name: &str,
    all: &[(String, Files)],
    numbers: &mut Numbers,
) -> String {
    let same = |other: &str| other.split(',').next() == name.split(',').next();
    let others: Vec<&Files> = all.iter().filter(|o| same(&o.0)).map(|o| &o.1).collect();
    let other = numbers.pick(&others);
    let names: Vec<&String> = other.keys().filter(|n| files.contains_key(*n)).collect();
    if names.is_empty() {
        return "nothing is common".to_owned();
    }
    let file = (*numbers.pick(&names)).clone();
    files.insert(file.clone(), other[&file].clone());
    format!("{file}: of another time")
}

/// Write unit of most of these logs, bytes.
pub const UNIT: usize = 4096;

/// Returns files and offsets of bytes that begin like a batch.
pub fn batches(files: &Files) -> Vec<(String, usize)> {
    let of_file = |(name, bytes): (&String, &Vec<u8>)| -> Vec<(String, usize)> {
        let pages = bytes.chunks(UNIT).enumerate();
        pages
            .filter(|(_, page)| page.starts_with(b"LFBTCH"))
            .map(|(n, _)| (name.clone(), n * UNIT))
            .collect()
    };
    files.iter().flat_map(of_file).collect()
}

/// Changes a batch, and returns a description of the change.
pub fn aimed(files: &mut Files, numbers: &mut Numbers) -> String {
    let batches = batches(files);
    if batches.is_empty() {
        return "no batch is left".to_owned();
    }
    let (name, at) = numbers.pick(&batches).clone();
    let (other, from) = numbers.pick(&batches);
    let other = files[other][*from..].to_vec();
    let bytes = &mut files.get_mut(&name).unwrap()[at..];
    let what = match numbers.below(5) {
        0 => {
            bytes[numbers.below(128)] ^= 1 << numbers.below(8);
            "a bit of its header"
        }
        1 => {
            let len = bytes.len().min(UNIT);
            bytes[..len].fill(0);
            "zeroes"
        }
        2 => {
            let len = bytes.len().min(other.len()).min(UNIT);
            bytes[..len].copy_from_slice(&other[..len]);
            "another batch"
        }
        3 if bytes.len() > 136 => {
            // A frame, with corrected checksums.
            bytes[128 + numbers.below(8)] ^= 1 << numbers.below(4);
            let len = u32::from_le_bytes(bytes[84..88].try_into().unwrap()) as usize;
            let payload = bytes.get(128..128 + len).unwrap_or_default();
            let crc = crc32c::crc32c(payload);
            bytes[12..16].copy_from_slice(&crc.to_le_bytes());
            seal(&mut bytes[..128]);
            "another frame"
        }
        _ => {
            let field = numbers.one(&[40, 48, 56, 64, 72, 80, 84, 92, 96]);
            let old = u32::from_le_bytes(bytes[field..field + 4].try_into().unwrap());
            let by = numbers.one(&[1, 8, 4096, 8192, 65_536]);
            let new = numbers.one(&[0, old.wrapping_add(by), old.wrapping_sub(by)]);
            bytes[field..field + 4].copy_from_slice(&new.to_le_bytes());
            seal(&mut bytes[..128]);
            "another field"
        }
    };
    format!("{name}: batch at {at}: {what}")
}

/// Corrects the checksum of a header or a slot.
fn seal(sealed: &mut [u8]) {
    sealed[8..12].fill(0);
    let crc = crc32c::crc32c(sealed);
    sealed[8..12].copy_from_slice(&crc.to_le_bytes());
}

pub fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap())
}
