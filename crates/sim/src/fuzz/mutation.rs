//! Mutations of a real log's files: what a device, a filesystem, or a copy at the wrong moment may do.

use super::Files;
use super::base::Base;
use super::forge::Forgery;
use crate::model::PATH;
use arbitrary::Arbitrary;
use logforce_format::{BATCH_HEADER_LEN, CONTROL_SLOT_OFFSETS, META_SLOT_OFFSETS};
use logforce_testkit::SimDisk;
use std::sync::Arc;

const SECTOR: usize = 512;
/// The longest mutated file.
const LONGEST: usize = 512 << 10;

/// One change. Numbers are taken modulo what there is.
#[derive(Debug, Clone, Arbitrary)]
pub(super) enum Mutation<'a> {
    Flip {
        at: Place,
        bit: u8,
    },
    Write {
        at: Place,
        bytes: &'a [u8],
    },
    Fill {
        at: Place,
        len: u16,
        byte: u8,
    },
    /// The file ends early.
    Shorten {
        file: u8,
        at: Place,
    },
    Extend {
        file: u8,
        by: u16,
        byte: u8,
    },
    Remove {
        file: u8,
    },
    /// Two files swap their names.
    Swap {
        a: u8,
        b: u8,
    },
    /// A copy of a file under another's name, or a new one.
    Copy {
        from: u8,
        to: u8,
        fresh: bool,
    },
    /// A misdirected write: sectors of another place.
    Misdirect {
        from: Place,
        to: Place,
        sectors: u8,
    },
    /// A batch written over another one.
    CopyBatch {
        from: u8,
        to: u8,
    },
    /// A lost write: sectors as they were in an earlier version.
    OldSectors {
        version: u8,
        at: Place,
        sectors: u8,
    },
    /// A file as it was in an earlier version.
    OldFile {
        version: u8,
        file: u8,
    },
    /// All files as they were in an earlier version.
    OldLog {
        version: u8,
    },
    /// A sector that the device cannot read.
    Unreadable {
        at: Place,
    },
    /// A change with every checksum made right.
    Forge(Forgery<'a>),
}

/// A byte, by the structure that holds it.
#[derive(Debug, Clone, Copy, Arbitrary)]
pub(super) enum Place {
    Byte { file: u8, at: u32 },
    Header { batch: u8, at: u8 },
    Payload { batch: u8, at: u16 },
    Segment { segment: u8, at: u8 },
    Control { second: bool, at: u16 },
    Meta { second: bool, at: u16 },
}

/// The kinds of mutations made: they decide what can be expected.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Kinds {
    /// Something is older than the rest.
    pub(super) rolled_back: bool,
    /// Something has right checksums that the log never wrote.
    pub(super) forged: bool,
}

/// A log's files, being mutated.
pub(super) struct Mutated<'b> {
    pub(super) base: &'b Base,
    pub(super) files: Files,
    pub(super) kinds: Kinds,
    /// Name and offset.
    pub(super) unreadable: Vec<(String, u64)>,
}

impl<'b> Mutated<'b> {
    /// Makes the disk's unreadable places unreadable.
    pub(super) fn make_unreadable(&self, disk: &SimDisk) {
        for (name, at) in &self.unreadable {
            disk.make_unreadable(PATH, name, *at);
        }
    }

    pub(super) fn new(base: &'b Base, mutations: &[Mutation<'_>]) -> Self {
        let mut mutated = Mutated {
            base,
            files: base.files.clone(),
            kinds: Kinds::default(),
            unreadable: Vec::new(),
        };
        for mutation in mutations {
            mutated.apply(mutation);
        }
        mutated
    }

    /// The name of the nth file.
    fn name(&self, n: u8) -> Option<String> {
        let at = usize::from(n) % self.files.len().max(1);
        self.files.keys().nth(at).cloned()
    }

    /// File and offset of a place.
    pub(super) fn place(&self, place: Place) -> Option<(String, usize)> {
        let of_batch = |batch: u8| {
            let count = self.base.batches.len().max(1);
            self.base.batches.get(usize::from(batch) % count)
        };
        Some(match place {
            Place::Byte { file, at } => {
                let name = self.name(file)?;
                let len = self.files[&name].len().max(1);
                (name, at as usize % len)
            }
            Place::Header { batch, at } => {
                let b = of_batch(batch)?;
                let within = usize::from(at) % BATCH_HEADER_LEN;
                (b.file.clone(), b.offset as usize + within)
            }
            Place::Payload { batch, at } => {
                let b = of_batch(batch)?;
                let within = usize::from(at) % (b.payload_len as usize).max(1);
                (
                    b.file.clone(),
                    b.offset as usize + BATCH_HEADER_LEN + within,
                )
            }
            Place::Segment { segment, at } => {
                let count = self.base.segments.len().max(1);
                let s = self.base.segments.get(usize::from(segment) % count)?;
                (s.name.clone(), usize::from(at) % 128)
            }
            Place::Control { second, at } => {
                let slot = CONTROL_SLOT_OFFSETS[usize::from(second)] as usize;
                ("control".to_owned(), slot + usize::from(at) % 4096)
            }
            Place::Meta { second, at } => {
                let slot = META_SLOT_OFFSETS[usize::from(second)] as usize;
                ("control".to_owned(), slot + usize::from(at) % 4096)
            }
        })
    }

    /// The bytes of a file from `at` on; empty if they are not there.
    pub(super) fn bytes(&mut self, name: &str, at: usize) -> &mut [u8] {
        let bytes = self.files.get_mut(name).map(Arc::make_mut);
        bytes.and_then(|b| b.get_mut(at..)).unwrap_or(&mut [])
    }

    fn write(&mut self, name: &str, at: usize, bytes: &[u8]) {
        for (to, from) in self.bytes(name, at).iter_mut().zip(bytes) {
            *to = *from;
        }
    }

    fn version(&self, n: u8) -> Option<&'b Files> {
        let count = self.base.versions.len().max(1);
        self.base.versions.get(usize::from(n) % count)
    }

    fn apply(&mut self, mutation: &Mutation<'_>) -> Option<()> {
        match mutation {
            Mutation::Flip { at, bit } => {
                let (name, at) = self.place(*at)?;
                *self.bytes(&name, at).first_mut()? ^= 1 << (bit % 8);
            }
            Mutation::Write { at, bytes } => {
                let (name, at) = self.place(*at)?;
                self.write(&name, at, bytes);
            }
            Mutation::Fill { at, len, byte } => {
                let (name, at) = self.place(*at)?;
                let bytes = self.bytes(&name, at);
                let len = usize::from(*len).min(bytes.len());
                bytes[..len].fill(*byte);
            }
            Mutation::Shorten { file, at } => {
                // The place gives the new length, in whatever file it lies.
                let (name, (_, at)) = (self.name(*file)?, self.place(*at)?);
                let bytes = self.files.get_mut(&name).map(Arc::make_mut)?;
                bytes.truncate(at);
            }
            Mutation::Extend { file, by, byte } => {
                let name = self.name(*file)?;
                let bytes = self.files.get_mut(&name).map(Arc::make_mut)?;
                let len = (bytes.len() + usize::from(*by)).min(LONGEST.max(bytes.len()));
                bytes.resize(len, *byte);
            }
            Mutation::Remove { file } => {
                let name = self.name(*file)?;
                self.files.remove(&name);
            }
            Mutation::Swap { a, b } => {
                let (a, b) = (self.name(*a)?, self.name(*b)?);
                let (of_a, of_b) = (self.files[&a].clone(), self.files[&b].clone());
                self.files.insert(a, of_b);
                self.files.insert(b, of_a);
            }
            Mutation::Copy { from, to, fresh } => {
                let bytes = self.files[&self.name(*from)?].clone();
                let name = if *fresh {
                    // As a segment, a spare, or one under preparation.
                    let suffix = ["seg", "spare", "tmp", "seg.damaged"][usize::from(*to) % 4];
                    format!("{:016x}.{suffix}", u64::from(*to) << 12)
                } else {
                    self.name(*to)?
                };
                if self.files.len() < 40 {
                    self.files.insert(name, bytes);
                }
            }
            Mutation::Misdirect { from, to, sectors } => {
                let ((a, from), (b, to)) = (self.place(*from)?, self.place(*to)?);
                let (from, to) = (from / SECTOR * SECTOR, to / SECTOR * SECTOR);
                let len = (usize::from(*sectors) % 32 + 1) * SECTOR;
                let bytes = &self.files.get(&a)?;
                let end = (from + len).min(bytes.len());
                let bytes = bytes.get(from..end)?.to_vec();
                self.write(&b, to, &bytes);
            }
            Mutation::CopyBatch { from, to } => {
                let at = |n: u8| Place::Header { batch: n, at: 0 };
                let ((a, from_at), (b, to)) = (self.place(at(*from))?, self.place(at(*to))?);
                let count = self.base.batches.len();
                let of = &self.base.batches[usize::from(*from) % count];
                let end = from_at + BATCH_HEADER_LEN + of.payload_len as usize;
                let bytes = self.files.get(&a)?.get(from_at..end)?.to_vec();
                self.write(&b, to, &bytes);
            }
            Mutation::OldSectors {
                version,
                at,
                sectors,
            } => {
                let (name, at) = self.place(*at)?;
                let at = at / SECTOR * SECTOR;
                let old = self.version(*version)?.get(&name)?;
                let end = at + (usize::from(*sectors) % 32 + 1) * SECTOR;
                let bytes = old.get(at..end.min(old.len()))?.to_vec();
                self.kinds.rolled_back = true;
                self.write(&name, at, &bytes);
            }
            Mutation::OldFile { version, file } => {
                let old = self.version(*version)?;
                let name = self.name(*file)?;
                let bytes = old.get(&name)?.clone();
                self.kinds.rolled_back = true;
                self.files.insert(name, bytes);
            }
            Mutation::OldLog { version } => {
                self.files = self.version(*version)?.clone();
                self.kinds.rolled_back = true;
            }
            Mutation::Unreadable { at } => {
                let (name, at) = self.place(*at)?;
                self.unreadable.push((name, at as u64));
            }
            Mutation::Forge(forgery) => {
                self.kinds.forged = true;
                forgery.apply(self);
            }
        }
        Some(())
    }
}
