//! The files on a disk: their names, contents, and places on it.

use crate::testbed::{Filesystem, Image, Mounted};
use crate::writeback::collect;
use anyhow::Result;
use logforce_device_os::extents;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Place of a range of the disk in its filesystem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "in")]
pub enum Region {
    /// Bytes of a file.
    File {
        /// Name below the program's directory.
        name: String,
        /// Offset in the file, bytes.
        offset: u64,
    },
    /// An operation on a name or a length, in words. Only of a model.
    Operation {
        /// The operation.
        name: String,
    },
    /// No file's bytes: the journal, or names, sizes and places of files.
    Metadata,
    /// Not known, because the filesystem does not tell.
    Unknown,
}

impl Region {
    /// Returns true if `next` follows this region, which has a length of `len` bytes.
    pub(super) fn continues_with(&self, next: &Region, len: u64) -> bool {
        match (self, next) {
            (
                Region::File { name, offset },
                Region::File {
                    name: of,
                    offset: at,
                },
            ) => name == of && offset + len == *at,
            _ => self == next,
        }
    }
}

impl std::fmt::Display for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Region::File { name, offset } => write!(f, "{name} at {offset}"),
            Region::Operation { name } => write!(f, "{name}"),
            Region::Metadata => write!(f, "the filesystem's journal or metadata"),
            Region::Unknown => write!(f, "an unknown place"),
        }
    }
}

/// A part of a file on the disk.
struct Extent {
    name: String,
    logical: u64,
    physical: u64,
    end: u64,
}

/// Contents of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Contents {
    /// Number of the file: a name that is given to another file has another.
    inode: u64,
    length: u64,
    hash: u64,
}

impl Contents {
    fn of(mut file: &File) -> std::io::Result<Contents> {
        let metadata = file.metadata()?;
        let (mut hasher, mut piece) = (DefaultHasher::new(), vec![0; 1 << 16]);
        loop {
            match file.read(&mut piece)? {
                0 => break,
                n => hasher.write(&piece[..n]),
            }
        }
        Ok(Contents {
            inode: metadata.ino(),
            length: metadata.len(),
            hash: hasher.finish(),
        })
    }
}

/// The files on a disk.
#[derive(Default)]
pub(super) struct Files {
    /// Their places; `None` if the filesystem does not tell.
    extents: Option<Vec<Extent>>,
    /// Their names, and what they hold.
    contents: BTreeMap<String, Contents>,
}

impl Files {
    /// Mounts the disk, which replays its journal, and asks for the place of each file.
    ///
    /// # Errors
    /// Errors of the machine.
    pub(super) fn of(filesystem: Filesystem, image: &Image, home: &Path) -> Result<Files> {
        let Ok(mounted) = Mounted::survivor(filesystem, image, home)? else {
            return Ok(Files::default());
        };
        let dir = crate::stage::data(mounted.path());
        let (mut paths, mut found) = (Vec::new(), Files::default());
        collect(&dir, &mut paths);
        // On btrfs FIEMAP gives addresses of its address space, which are not offsets on the disk.
        let mut places = (filesystem != Filesystem::Btrfs).then(Vec::new);
        for path in &paths {
            let name = path.strip_prefix(&dir).unwrap_or(path).display();
            let name = name.to_string();
            let told = File::open(path).and_then(|file| {
                let contents = Contents::of(&file)?;
                found.contents.insert(name.clone(), contents);
                Ok(extents(file.as_fd())?)
            });
            match (told, &mut places) {
                (Ok(told), Some(places)) => places.extend(told.into_iter().map(|e| Extent {
                    name: name.clone(),
                    logical: e.logical,
                    physical: e.physical,
                    end: e.physical + e.length,
                })),
                (Ok(_), None) => {}
                (Err(_), _) => places = None,
            }
        }
        mounted.unmount()?;
        found.extents = places;
        Ok(found)
    }

    /// Returns the differences to the files of `whole`, in words.
    pub(super) fn differences(&self, whole: &Files) -> Vec<String> {
        let (here, there) = (&self.contents, &whole.contents);
        let names: BTreeSet<&String> = here.keys().chain(there.keys()).collect();
        let told = names.into_iter().filter_map(|name| {
            let difference = match (here.get(name), there.get(name)) {
                (Some(_), None) => "is still there".to_owned(),
                (None, Some(_)) => "is not there".to_owned(),
                (Some(a), Some(b)) if a.inode != b.inode => "is another file".to_owned(),
                (Some(a), Some(b)) if a.length != b.length => {
                    format!("has {} bytes instead of {}", a.length, b.length)
                }
                (Some(a), Some(b)) if a.hash != b.hash => "has other contents".to_owned(),
                _ => return None,
            };
            Some(format!("{name} {difference}"))
        });
        told.collect()
    }

    /// Splits a range of the disk at the borders of files. Returns each part with its offset on the disk and its length.
    pub(super) fn split(&self, offset: u64, len: u64) -> Vec<(Region, u64, u64)> {
        let Some(extents) = &self.extents else {
            return vec![(Region::Unknown, offset, len)];
        };
        let (mut at, end, mut parts) = (offset, offset + len, Vec::new());
        while at < end {
            let here = extents.iter().find(|e| (e.physical..e.end).contains(&at));
            let (region, until) = match here {
                Some(e) => {
                    let file = Region::File {
                        name: e.name.clone(),
                        offset: e.logical + (at - e.physical),
                    };
                    (file, e.end)
                }
                None => {
                    let later = extents.iter().map(|e| e.physical).filter(|p| *p > at);
                    (Region::Metadata, later.min().unwrap_or(end))
                }
            };
            let until = until.min(end);
            parts.push((region, at, until - at));
            at = until;
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_split_at_the_borders_of_files() {
        let extent = |name: &str, logical, physical, end| Extent {
            name: name.to_owned(),
            logical,
            physical,
            end,
        };
        let extents = vec![extent("a", 4096, 1000, 2000), extent("b", 0, 3000, 4000)];
        let places = Files {
            extents: Some(extents),
            contents: BTreeMap::new(),
        };
        let file = |name: &str, offset| Region::File {
            name: name.to_owned(),
            offset,
        };
        let wanted = [
            (Region::Metadata, 500, 500),
            (file("a", 4096), 1000, 1000),
            (Region::Metadata, 2000, 1000),
            (file("b", 0), 3000, 500),
        ];
        assert_eq!(places.split(500, 3000), wanted);
        assert_eq!(places.split(1500, 100), [(file("a", 4596), 1500, 100)]);
        let unknown = Files::default();
        assert_eq!(unknown.split(0, 9), [(Region::Unknown, 0, 9)]);
    }

    #[test]
    fn files_that_differ_are_told() {
        let files = |files: &[(&str, u64, u64, u64)]| Files {
            extents: None,
            contents: files
                .iter()
                .map(|&(name, inode, length, hash)| {
                    let contents = Contents {
                        inode,
                        length,
                        hash,
                    };
                    (name.to_owned(), contents)
                })
                .collect(),
        };
        let whole = [
            ("a", 1, 1, 1),
            ("b", 2, 1, 1),
            ("c", 3, 1, 1),
            ("e", 5, 1, 1),
            ("f", 6, 1, 1),
        ];
        let left = [
            ("a", 1, 1, 1),
            ("c", 3, 2, 2),
            ("d", 4, 1, 1),
            ("e", 9, 1, 1),
            ("f", 6, 1, 2),
        ];
        let told = [
            "b is not there",
            "c has 2 bytes instead of 1",
            "d is still there",
            "e is another file",
            "f has other contents",
        ];
        assert_eq!(files(&left).differences(&files(&whole)), told);
    }
}
