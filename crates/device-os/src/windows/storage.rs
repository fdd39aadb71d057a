//! Parser of the answers of storage drivers.
//!
//! It reads bytes instead of structures. A driver may return fewer bytes than the structure has, and may put
//! any value into a `bool`.

use logforce_device::WriteCache;
use std::io;

/// Returns a little-endian number, as all of Windows uses.
pub fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(four.try_into().ok()?))
}

/// `STORAGE_WRITE_CACHE_PROPERTY`: the device's report about its cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cache {
    /// Cache, by type and setting.
    pub write_cache: WriteCache,
    /// True if the device writes through its cache on request.
    pub write_through: Option<bool>,
    /// True if its cache can be flushed.
    pub flush: bool,
    /// True if Windows was configured to treat the cache as protected. That is a setting and no proof, and
    /// with it Windows sends no flushes.
    pub told_protected: bool,
    /// True if it has a non-volatile cache.
    pub nv_cache: bool,
    /// True if it has a cache that is switched off.
    pub is_off: bool,
}

/// Parses the answer; `None` if it is too short.
pub fn cache(answer: &[u8]) -> Option<Cache> {
    let (kind, enabled, through) = (number(answer, 8)?, number(answer, 12)?, number(answer, 20)?);
    let flag = |at: usize| answer.get(at).is_some_and(|b| *b != 0);
    let flush = flag(24);
    let write_cache = match (kind, enabled) {
        // No cache, or one that is off.
        (1, _) | (_, 1) => WriteCache::Through,
        // The cache writes through.
        (3, _) => WriteCache::Through,
        // A volatile cache that cannot be flushed would be `Back`, whose promise no party could keep.
        (2, _) if flush => WriteCache::Back,
        _ => WriteCache::Unknown,
    };
    Some(Cache {
        write_cache,
        write_through: match through {
            1 => Some(false),
            2 => Some(true),
            _ => None,
        },
        flush,
        told_protected: flag(25),
        nv_cache: flag(26),
        is_off: enabled == 1 && kind != 1,
    })
}

/// `STORAGE_ACCESS_ALIGNMENT_DESCRIPTOR`: logical and physical sector, in bytes.
pub fn sectors(answer: &[u8]) -> Option<(u32, u32)> {
    let sane = |n: u32| (n.is_power_of_two() && (512..=1 << 20).contains(&n)).then_some(n);
    Some((sane(number(answer, 16)?)?, sane(number(answer, 20)?)?))
}

/// `DEVICE_SEEK_PENALTY_DESCRIPTOR`: true if seeking takes time, which means that the disk is rotational.
pub fn turns(answer: &[u8]) -> Option<bool> {
    answer.get(8).map(|b| *b != 0)
}

/// `STORAGE_DEVICE_DESCRIPTOR`: true for an NVMe disk.
pub fn is_nvme(answer: &[u8]) -> bool {
    const BUS_TYPE_NVME: u32 = 17;
    number(answer, 28) == Some(BUS_TYPE_NVME)
}

/// `STORAGE_DEVICE_DESCRIPTOR`: vendor and product, as far as they are given.
pub fn model(answer: &[u8]) -> String {
    let text = |at: usize| {
        let start = number(answer, at)? as usize;
        let bytes = answer.get(start..).filter(|_| start != 0)?;
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        let text: String = bytes[..end]
            .iter()
            .map(|b| char::from(*b))
            .filter(|c| c.is_ascii_graphic() || *c == ' ')
            .collect();
        Some(text.trim().to_owned()).filter(|t| !t.is_empty())
    };
    let words: Vec<String> = [12, 16].into_iter().filter_map(text).collect();
    words.join(" ")
}

/// `STORAGE_DEVICE_NUMBER`: number of the physical disk. Fails if the device is not a disk, because other
/// devices have other numbers: CD-ROM 0 is not disk 0.
pub fn disk_number(answer: &[u8]) -> io::Result<u32> {
    const FILE_DEVICE_DISK: u32 = 7;
    let (Some(kind), Some(disk)) = (number(answer, 0), number(answer, 4)) else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!(
                "the driver names the device in {} bytes, too few for a number",
                answer.len()
            ),
        ));
    };
    if kind != FILE_DEVICE_DISK {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!("the volume lies on a device of type {kind}, which is not a disk (type 7)"),
        ));
    }
    Ok(disk)
}

/// `FILE_REGION_OUTPUT` of a query for valid data: the end of the region at the file's start.
pub fn first_region(answer: &[u8]) -> Option<u64> {
    let long = |at: usize| {
        let eight = answer.get(at..at + 8)?;
        Some(i64::from_le_bytes(eight.try_into().ok()?))
    };
    const VALID_CACHED_DATA: u32 = 1;
    let given = number(answer, 8)? > 0;
    let valid = long(16)? == 0 && number(answer, 32)? & VALID_CACHED_DATA != 0;
    (given && valid).then(|| long(24)?.try_into().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn property(kind: u32, enabled: u32, through: u32, flags: [u8; 3]) -> Vec<u8> {
        let mut bytes: Vec<u8> = [1u32, 28, kind, enabled, 0, through]
            .into_iter()
            .flat_map(u32::to_le_bytes)
            .collect();
        bytes.extend(flags);
        bytes.push(0);
        bytes
    }

    #[test]
    fn what_a_device_says_of_its_cache() {
        let of = |kind, enabled, flush| {
            cache(&property(kind, enabled, 0, [flush, 0, 0]))
                .unwrap()
                .write_cache
        };
        assert_eq!(of(0, 0, 1), WriteCache::Unknown);
        assert_eq!(of(1, 0, 0), WriteCache::Through);
        assert_eq!(of(2, 2, 1), WriteCache::Back);
        // It does not report whether the cache is on; the cache may be on.
        assert_eq!(of(2, 0, 1), WriteCache::Back);
        assert_eq!(of(2, 1, 1), WriteCache::Through);
        assert_eq!(of(3, 2, 1), WriteCache::Through);
        assert_eq!(of(2, 2, 0), WriteCache::Unknown, "it cannot be flushed");

        for (said, means) in [(0, None), (1, Some(false)), (2, Some(true)), (77, None)] {
            let cache = cache(&property(2, 2, said, [1, 0, 0])).unwrap();
            assert_eq!(cache.write_through, means);
        }
        // A `bool` with another value than 0 and 1.
        let answer = cache(&property(2, 2, 0, [255, 2, 1])).unwrap();
        assert!(answer.flush && answer.told_protected && answer.nv_cache);
        let is_off = |kind, enabled| {
            cache(&property(kind, enabled, 0, [1, 0, 0]))
                .unwrap()
                .is_off
        };
        assert!(is_off(2, 1) && is_off(3, 1) && is_off(0, 1));
        assert!(!is_off(2, 2) && !is_off(2, 0) && !is_off(1, 1) && !is_off(1, 0));
        let full = property(2, 2, 2, [1, 1, 1]);
        for len in 0..24 {
            assert_eq!(cache(&full[..len]), None);
        }
        assert!(!cache(&full[..24]).unwrap().flush);
    }

    #[test]
    fn sectors_are_believed_if_they_can_be() {
        let answer = |logical: u32, physical: u32| {
            let fields = [1, 28, 0, 0, logical, physical, 0];
            sectors(&fields.map(u32::to_le_bytes).concat())
        };
        assert_eq!(answer(512, 4096), Some((512, 4096)));
        assert_eq!(answer(0, 4096), None);
        assert_eq!(answer(512, 3000), None);
        assert_eq!(sectors(&[0; 10]), None);
    }

    #[test]
    fn only_disks_have_the_number_of_a_disk() {
        let answer = |kind: u32, number: u32| [kind, number, 1].map(u32::to_le_bytes).concat();
        assert_eq!(disk_number(&answer(7, 0)).unwrap(), 0);
        assert_eq!(disk_number(&answer(7, 0x0102_0304)).unwrap(), 0x0102_0304);
        // A CD-ROM, a virtual disk, numbers swapped.
        for kind in [2, 0x24, 0, 0x0700_0000] {
            let e = disk_number(&answer(kind, 7)).unwrap_err();
            assert_eq!(e.kind(), io::ErrorKind::Unsupported);
            assert!(
                e.to_string()
                    .contains(&format!("type {kind}, which is not a disk"))
            );
        }
        for len in 0..8 {
            let e = disk_number(&answer(7, 1)[..len]).unwrap_err();
            assert!(e.to_string().contains(&format!("in {len} bytes")));
        }
    }

    #[test]
    fn models_and_seeks() {
        let mut bytes = vec![0; 40];
        bytes[12..16].copy_from_slice(&40u32.to_le_bytes());
        bytes[16..20].copy_from_slice(&46u32.to_le_bytes());
        bytes.extend(b"ACME \0Disk 9\x07\0rest");
        assert_eq!(model(&bytes), "ACME Disk 9");
        assert_eq!(model(&bytes[..42]), "AC");
        assert_eq!(model(&[]), "");
        bytes[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(model(&bytes), "ACME");
        let mut disk = [0; 32];
        assert!(!is_nvme(&disk));
        disk[28] = 17;
        assert!(is_nvme(&disk) && !is_nvme(&disk[..31]));
        assert_eq!(turns(&[0, 0, 0, 0, 0, 0, 0, 0, 1]), Some(true));
        assert_eq!(turns(&[0; 8]), None);
    }

    #[test]
    fn valid_data_ends_with_the_first_region() {
        let answer = |start: i64, len: i64, usage: u32| {
            let mut bytes = [0u32, 2, 1, 0].map(u32::to_le_bytes).concat();
            bytes.extend(start.to_le_bytes());
            bytes.extend(len.to_le_bytes());
            bytes.extend(usage.to_le_bytes());
            bytes.extend([0; 4]);
            bytes
        };
        assert_eq!(first_region(&answer(0, 1 << 20, 1)), Some(1 << 20));
        assert_eq!(first_region(&answer(0, 1 << 20, 2)), None);
        assert_eq!(first_region(&answer(4096, 1 << 20, 1)), None);
        assert_eq!(first_region(&answer(0, -1, 1)), None);
        assert_eq!(first_region(&[0; 20]), None);
        assert_eq!(first_region(&[0; 40]), None, "no region given");
    }
}
