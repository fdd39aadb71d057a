//! Mutations of a real log's files, as a device, a filesystem, or a copy at the wrong moment may cause.

use super::base::Base;
use super::forge::Forgery;
use super::mutated::{ByteAddress, Mutated};
use arbitrary::Arbitrary;
use logforce_format::BATCH_HEADER_LEN;
use std::sync::Arc;

const SECTOR: usize = 512;
/// Largest size of a mutated file, bytes.
const LONGEST: usize = 512 << 10;

/// One change. Numbers are taken modulo the number of files, batches or bytes.
#[derive(Debug, Clone, Arbitrary)]
pub(super) enum Mutation<'a> {
    Flip {
        at: ByteAddress,
        bit: u8,
    },
    Write {
        at: ByteAddress,
        bytes: &'a [u8],
    },
    Fill {
        at: ByteAddress,
        len: u16,
        byte: u8,
    },
    /// The file ends early.
    Shorten {
        file: u8,
        at: ByteAddress,
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
    /// A misdirected write: sectors of another position.
    Misdirect {
        from: ByteAddress,
        to: ByteAddress,
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
        at: ByteAddress,
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
        at: ByteAddress,
    },
    /// A change with all checksums corrected.
    Forge(Forgery<'a>),
}

/// Returns the log's files with the mutations made.
pub(super) fn mutated<'b>(base: &'b Base, mutations: &[Mutation<'_>]) -> Mutated<'b> {
    let mut mutated = Mutated::new(base);
    for mutation in mutations {
        mutation.apply(&mut mutated);
    }
    mutated
}

impl Mutation<'_> {
    fn apply(&self, m: &mut Mutated<'_>) -> Option<()> {
        match self {
            Mutation::Flip { at, bit } => {
                let (name, at) = m.place(*at)?;
                *m.bytes(&name, at).first_mut()? ^= 1 << (bit % 8);
            }
            Mutation::Write { at, bytes } => {
                let (name, at) = m.place(*at)?;
                m.write(&name, at, bytes);
            }
            Mutation::Fill { at, len, byte } => {
                let (name, at) = m.place(*at)?;
                let bytes = m.bytes(&name, at);
                let len = usize::from(*len).min(bytes.len());
                bytes[..len].fill(*byte);
            }
            Mutation::Shorten { file, at } => {
                // The address gives the new length, in whatever file it lies.
                let (name, (_, at)) = (m.name(*file)?, m.place(*at)?);
                let bytes = m.files.get_mut(&name).map(Arc::make_mut)?;
                bytes.truncate(at);
            }
            Mutation::Extend { file, by, byte } => {
                let name = m.name(*file)?;
                let bytes = m.files.get_mut(&name).map(Arc::make_mut)?;
                let len = (bytes.len() + usize::from(*by)).min(LONGEST.max(bytes.len()));
                bytes.resize(len, *byte);
            }
            Mutation::Remove { file } => {
                let name = m.name(*file)?;
                m.files.remove(&name);
            }
            Mutation::Swap { a, b } => {
                let (a, b) = (m.name(*a)?, m.name(*b)?);
                let (of_a, of_b) = (m.files[&a].clone(), m.files[&b].clone());
                m.files.insert(a, of_b);
                m.files.insert(b, of_a);
            }
            Mutation::Copy { from, to, fresh } => {
                let bytes = m.files[&m.name(*from)?].clone();
                let name = if *fresh {
                    // Name of a segment, of a spare, or of a segment under preparation.
                    let suffix = ["seg", "spare", "tmp", "seg.damaged"][usize::from(*to) % 4];
                    format!("{:016x}.{suffix}", u64::from(*to) << 12)
                } else {
                    m.name(*to)?
                };
                if m.files.len() < 40 {
                    m.files.insert(name, bytes);
                }
            }
            Mutation::Misdirect { from, to, sectors } => {
                let ((a, from), (b, to)) = (m.place(*from)?, m.place(*to)?);
                let (from, to) = (from / SECTOR * SECTOR, to / SECTOR * SECTOR);
                let len = (usize::from(*sectors) % 32 + 1) * SECTOR;
                let bytes = &m.files.get(&a)?;
                let end = (from + len).min(bytes.len());
                let bytes = bytes.get(from..end)?.to_vec();
                m.write(&b, to, &bytes);
            }
            Mutation::CopyBatch { from, to } => {
                let at = |n: u8| ByteAddress::Header { batch: n, at: 0 };
                let ((a, from_at), (b, to)) = (m.place(at(*from))?, m.place(at(*to))?);
                let count = m.base.batches.len();
                let of = &m.base.batches[usize::from(*from) % count];
                let end = from_at + BATCH_HEADER_LEN + of.payload_len as usize;
                let bytes = m.files.get(&a)?.get(from_at..end)?.to_vec();
                m.write(&b, to, &bytes);
            }
            Mutation::OldSectors {
                version,
                at,
                sectors,
            } => {
                let (name, at) = m.place(*at)?;
                let at = at / SECTOR * SECTOR;
                let old = m.version(*version)?.get(&name)?;
                let end = at + (usize::from(*sectors) % 32 + 1) * SECTOR;
                let bytes = old.get(at..end.min(old.len()))?.to_vec();
                m.kinds.rolled_back = true;
                m.write(&name, at, &bytes);
            }
            Mutation::OldFile { version, file } => {
                let old = m.version(*version)?;
                let name = m.name(*file)?;
                let bytes = old.get(&name)?.clone();
                m.kinds.rolled_back = true;
                m.files.insert(name, bytes);
            }
            Mutation::OldLog { version } => {
                m.files = m.version(*version)?.clone();
                m.kinds.rolled_back = true;
            }
            Mutation::Unreadable { at } => {
                let (name, at) = m.place(*at)?;
                m.unreadable.push((name, at as u64));
            }
            Mutation::Forge(forgery) => {
                m.kinds.forged = true;
                forgery.apply(m);
            }
        }
        Some(())
    }
}
