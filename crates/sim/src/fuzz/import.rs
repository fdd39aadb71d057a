//! Fuzz target that imports the chunks of a real log, changed, cut, left out or in another order.

use super::base::{self, disk_options};
use super::sealing::seal;
use crate::model::{PATH, read};
use arbitrary::Arbitrary;
use logforce_core::{Error, Import, ImportOptions, Log, LogChunk, Lsn, OpenMode, ReplicaOptions};
use logforce_testkit::{SimDisk, SimRuntime};
use std::path::Path;
use std::sync::OnceLock;

const COPY: &str = "/copy";
/// Largest number of chunks of an import.
const CHUNKS: usize = 12;
/// Largest size of a chunk that the replica reads, bytes.
const CHUNK: u64 = 4 << 10;

#[derive(Debug, Arbitrary)]
pub(super) struct Input {
    base: u8,
    until: Option<u32>,
    chunks: Vec<Piece>,
}

/// Chunk of the base log, and its changes.
#[derive(Debug, Arbitrary)]
struct Piece {
    number: u8,
    /// Chunk whose control slot comes with it.
    control: u8,
    shift: Option<i16>,
    len: Option<u16>,
    changes: Vec<(u16, u8)>,
    control_changes: Vec<(u16, u8)>,
    /// True if the changed control slot has a correct checksum.
    is_sealed: bool,
}

/// Chunks of a base log, with their control slots.
pub(super) struct Source {
    chunks: Vec<LogChunk>,
    records: Vec<(Lsn, Vec<u8>)>,
}

fn records(log: &Log) -> Vec<(Lsn, Vec<u8>)> {
    let all = read(log, log.front_lsn()).into_iter();
    all.map(|record| (record.start, record.data)).collect()
}

/// Returns the chunks of all base logs. Those that a strict opening refuses have none.
pub(super) fn sources() -> &'static [Source] {
    static SOURCES: OnceLock<Vec<Source>> = OnceLock::new();
    SOURCES.get_or_init(|| {
        let made = base::all().iter().filter_map(|base| {
            let disk = SimDisk::new(disk_options(), 1);
            disk.restore(&base.disk);
            let made = SimRuntime::run(1, |rt| {
                let options = base.options.clone();
                let log = Log::open(&*disk.system(rt), PATH, OpenMode::OpenExisting, options)?;
                log.commit(b"copied")?;
                let mut replica = log.replicate(ReplicaOptions::new())?;
                let mut chunks = Vec::new();
                while let Some(chunk) = replica.read(CHUNK)? {
                    chunks.push(chunk);
                }
                let records = records(&log);
                Ok::<_, Error>(Source { chunks, records })
            });
            made.ok()
        });
        made.collect()
    })
}

fn change(bytes: &mut [u8], changes: &[(u16, u8)]) {
    for (at, bits) in changes {
        if let Some(byte) = bytes.get_mut(usize::from(*at)) {
            *byte ^= bits;
        }
    }
}

/// Imports the chunks of an input. Returns true if a changed control slot had a correct checksum.
fn import(import: &mut Import<'_>, source: &Source, input: &Input) -> Result<bool, Error> {
    let mut is_forged = false;
    for piece in input.chunks.iter().take(CHUNKS) {
        let of = |n: u8| &source.chunks[usize::from(n) % source.chunks.len()];
        let (chunk, other) = (of(piece.number), of(piece.control));
        let (mut bytes, mut control) = (chunk.bytes.clone(), other.control.clone());
        change(&mut bytes, &piece.changes);
        if let Some(len) = piece.len {
            bytes.truncate(usize::from(len));
        }
        change(&mut control, &piece.control_changes);
        if piece.is_sealed {
            seal(&mut control);
        }
        is_forged |= piece.is_sealed && control != other.control;
        let shift = i64::from(piece.shift.unwrap_or_default());
        let from = Lsn(chunk.from.0.saturating_add_signed(shift));
        import.chunk(from, &bytes, &control, other.meta.as_deref())?;
    }
    Ok(is_forged)
}

pub(super) fn run(input: Input) {
    let sources = sources();
    let source = &sources[usize::from(input.base) % sources.len()];
    let disk = SimDisk::new(disk_options(), 1);
    let mut options = ImportOptions::new();
    if let Some(until) = input.until {
        options = options.until(Lsn(until.into()));
    }
    let imported = SimRuntime::run(1, |rt| {
        let system = disk.system(rt);
        let mut target = Import::new(&*system, Path::new(COPY), options)?;
        let is_forged = import(&mut target, source, &input)?;
        target.finish().map(|_| is_forged)
    });
    let opened = SimRuntime::run(1, |rt| {
        let options = base::all()[0].options.clone();
        let log = Log::open(&*disk.system(rt), COPY, OpenMode::OpenExisting, options)?;
        Ok::<_, Error>(records(&log))
    });
    let is_forged = match imported {
        Ok(is_forged) => is_forged,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return assert!(opened.is_err(), "a refused import left a log");
        }
    };
    // A slot with a correct checksum may say anything of the front.
    let found = match opened {
        Ok(found) => found,
        Err(_) if is_forged => return,
        Err(error) => panic!("a restored log does not open: {error}"),
    };
    let is_part = found.is_empty() || source.records.windows(found.len()).any(|w| w == found);
    assert!(is_part || is_forged, "another log: {found:?}");
}
