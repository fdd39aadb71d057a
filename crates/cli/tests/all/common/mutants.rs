//! Mutated logs. The same seed always makes the same changes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Reproducible random numbers (SplitMix64).
pub struct Numbers(pub u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

pub type Files = BTreeMap<String, Vec<u8>>;

pub fn files(dir: &Path) -> Files {
    let entries = fs::read_dir(dir).unwrap().map(|e| e.unwrap());
    entries
        .map(|e| {
            let name = e.file_name().into_string().unwrap();
            (name, fs::read(e.path()).unwrap())
        })
        .collect()
}

/// Returns the offset and the length of a structure with a checksum in this file.
fn sealed(name: &str, bytes: &[u8], numbers: &mut Numbers) -> (usize, usize) {
    let pages = bytes.len() / 4096;
    match name {
        "control" => (numbers.one(&[0, 65_536, 131_072, 196_608]), 4096),
        "live" => (0, 4096),
        // The header of the segment or of a batch.
        _ => (4096 * numbers.below(pages.min(20)), 128),
    }
}

/// Changes eight bytes of a structure and corrects its checksum, so that the checks after the checksum
/// must catch the change.
fn forge(name: &str, bytes: &mut [u8], numbers: &mut Numbers) {
    let (at, len) = sealed(name, bytes, numbers);
    let Some(of) = bytes.get_mut(at..at + len) else {
        return;
    };
    let word = 16 + 8 * numbers.below(16);
    let word = word.min(len - 8);
    let old = u64::from_le_bytes(of[word..word + 8].try_into().unwrap());
    let any = numbers.next();
    let new = numbers.one(&[
        0,
        1,
        u64::MAX,
        u64::MAX - 3,
        1 << 63,
        u64::from(u32::MAX),
        old.wrapping_add(8),
        old.wrapping_add(4096),
        old.wrapping_sub(512),
        old ^ 1 << (any % 64),
        any,
    ]);
    of[word..word + 8].copy_from_slice(&new.to_le_bytes());
    of[8..12].fill(0);
    let crc = crc32c::crc32c(of);
    of[8..12].copy_from_slice(&crc.to_le_bytes());
}

/// Changes the files, and returns a description of the change.
pub fn mutate(files: &mut Files, numbers: &mut Numbers) -> String {
    let names: Vec<String> = files.keys().cloned().collect();
    if names.is_empty() {
        return "nothing is left".to_owned();
    }
    let name = numbers.pick(&names).clone();
    let other = numbers.pick(&names).clone();
    let bytes = files.get_mut(&name).unwrap();
    let at = numbers.below(bytes.len());
    match numbers.below(12) {
        0 if !bytes.is_empty() => {
            bytes[at] ^= 1 << numbers.below(8);
            format!("{name}: a bit at {at}")
        }
        1 if !bytes.is_empty() => {
            let (at, len) = sealed(&name, bytes, numbers);
            let at = (at + numbers.below(len)).min(bytes.len() - 1);
            bytes[at] ^= 1 << numbers.below(8);
            format!("{name}: a bit of a header at {at}")
        }
        2 => {
            let from = at / 512 * 512;
            let to = (from + 4096).min(bytes.len());
            let fill = numbers.one(&[0, 0xff]);
            bytes[from..to].fill(fill);
            format!("{name}: {fill:#x} from {from}")
        }
        3 => {
            bytes.truncate(at);
            format!("{name}: cut at {at}")
        }
        4 => {
            files.remove(&name);
            format!("{name}: removed")
        }
        5 => {
            let a = files[&name].clone();
            let b = files.insert(other.clone(), a).unwrap();
            files.insert(name.clone(), b);
            format!("{name} and {other} exchanged")
        }
        6 => {
            let copy = numbers.one(&[
                "00000000000000ff.seg",
                "zz.seg",
                "x.spare",
                "control",
                "live",
            ]);
            let bytes = bytes.clone();
            files.insert(copy.to_owned(), bytes);
            format!("{name}: copied to {copy}")
        }
        7 => {
            let len = numbers.below(9000);
            bytes.clear();
            bytes.extend((0..len).map(|_| numbers.next() as u8));
            format!("{name}: {len} bytes of anything")
        }
        _ => {
            forge(&name, bytes, numbers);
            format!("{name}: forged")
        }
    }
}

/// Makes `dir` hold these files and nothing else.
pub fn lay_out(files: &Files, dir: &Path) {
    let _ = fs::remove_dir_all(dir);
    fs::create_dir(dir).unwrap();
    for (name, bytes) in files {
        fs::write(dir.join(name), bytes).unwrap();
    }
}
