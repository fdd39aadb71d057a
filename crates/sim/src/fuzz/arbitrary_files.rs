//! Made-up directories: arbitrary bytes, and structures with correct checksums and arbitrary contents.

use super::base::{disk_options, options};
use super::opening;
use super::sealing::{seal, seal_batch};
use crate::mending::OnDamage;
use crate::model::PATH;
use arbitrary::Arbitrary;
use logforce_format::{
    Anchor, BATCH_HEADER_LEN, BatchHeader, BatchKind, CONTROL_FILE_LEN, CONTROL_SLOT_OFFSETS,
    Control, Epoch, FORMAT_VERSION, LogId, Lsn, SegmentHeader, payload_crc,
};
use logforce_testkit::SimDisk;

/// Largest size of a made-up file, bytes.
const LONGEST: usize = 96 << 10;
const FILES: usize = 8;
const LOG: LogId = LogId([7; 16]);

#[derive(Debug, Arbitrary)]
pub(super) struct Input<'a> {
    how: How,
    control: ControlFile<'a>,
    files: Vec<(Name<'a>, Vec<Part<'a>>)>,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum How {
    Walk,
    Salvage,
    Read,
    Follow,
    Write,
    Truncate,
}

#[derive(Debug, Arbitrary)]
enum ControlFile<'a> {
    None,
    Raw(&'a [u8]),
    Slots([Slot<'a>; 2]),
}

#[derive(Debug, Arbitrary)]
enum Slot<'a> {
    Blank,
    /// Correct checksum, arbitrary contents.
    Sealed(&'a [u8]),
    Made {
        sequence: u8,
        first: u8,
        front: u8,
        anchor: u16,
        prepared: u8,
        prev_crc: Option<u32>,
        epoch: u8,
        clean: bool,
        has_meta: bool,
        history: u8,
    },
}

#[derive(Debug, Arbitrary)]
enum Name<'a> {
    Segment(u8),
    Spare(u8),
    Preparing(u8),
    Live,
    Lock,
    Calibration,
    Any(&'a str),
}

/// A piece of a file.
#[derive(Debug, Arbitrary)]
enum Part<'a> {
    Raw(&'a [u8]),
    Zeroes(u16),
    /// Zeroes up to a multiple of 4096.
    Align,
    Header {
        start: u8,
        pages: u8,
        unit: u8,
        epoch: u8,
    },
    /// Correct magic and checksum, arbitrary contents.
    Sealed(Magic, &'a [u8]),
    Batch {
        /// LSN in its header, in sectors; its actual position if not given.
        lsn: Option<u16>,
        kind: u8,
        epoch: u8,
        prev_epoch: u8,
        stamp: u16,
        void_from: Option<u16>,
        last_void: u16,
        /// True if it links to the batch made before.
        linked: bool,
        frames: Vec<(u8, &'a [u8])>,
    },
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Magic {
    Batch,
    Segment,
    Live,
}

/// Returns an epoch with a fixed nonce.
fn epoch(counter: u8) -> Epoch {
    Epoch {
        counter: counter.into(),
        nonce: if counter == 0 { 0 } else { 9 },
    }
}

fn sectors(n: impl Into<u64>) -> Lsn {
    Lsn(n.into() * 512)
}

fn pages(n: u8) -> Lsn {
    Lsn(u64::from(n) * 4096)
}

impl Slot<'_> {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Slot::Blank => Vec::new(),
            Slot::Sealed(bytes) => sealed(b"LFCTRL", bytes, 4096),
            Slot::Made {
                sequence,
                first,
                front,
                anchor,
                prepared,
                prev_crc,
                epoch: counter,
                clean,
                has_meta,
                history,
            } => Control {
                log_id: LOG,
                sequence: (*sequence).into(),
                front: pages(*front),
                first_segment: pages(*first),
                prepared_end: pages(*prepared),
                write_limit: match has_meta {
                    true => pages(*prepared),
                    false => Lsn::ORIGIN,
                },
                first_prev_crc: 0,
                clean: *clean,
                has_meta: *has_meta,
                anchor: Anchor {
                    lsn: sectors(*anchor),
                    prev_crc: prev_crc.unwrap_or(0),
                    epoch: epoch(counter.saturating_sub(1)),
                    last_void: Lsn::ORIGIN,
                },
                epoch: epoch(*counter),
                history: (0..*counter)
                    .rev()
                    .take((*history).into())
                    .map(epoch)
                    .collect(),
            }
            .encode()
            .to_vec(),
        }
    }
}

fn sealed(magic: &[u8; 6], bytes: &[u8], len: usize) -> Vec<u8> {
    let mut all = bytes.to_vec();
    all.resize(len.max(bytes.len()), 0);
    all[..6].copy_from_slice(magic);
    all[6..8].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    seal(&mut all[..len]);
    all
}

impl Name<'_> {
    fn text(&self) -> String {
        let of = |n: &u8, suffix| format!("{:016x}.{suffix}", pages(*n).0);
        match self {
            Name::Segment(n) => of(n, "seg"),
            Name::Spare(n) => of(n, "spare"),
            Name::Preparing(n) => of(n, "tmp"),
            Name::Live => "live".to_owned(),
            Name::Lock => "lock".to_owned(),
            Name::Calibration => "calibration".to_owned(),
            Name::Any(name) => name.replace(['/', '\\', '\0'], "_"),
        }
    }
}

/// A file under construction.
#[derive(Default)]
struct Making {
    bytes: Vec<u8>,
    /// Start of the segment, by its header.
    start: Lsn,
    /// Checksum of the last batch in any file.
    link: u32,
}

impl Making {
    fn add(&mut self, part: &Part<'_>) {
        match part {
            Part::Raw(bytes) => self.bytes.extend_from_slice(bytes),
            Part::Zeroes(n) => self.bytes.resize(self.bytes.len() + usize::from(*n), 0),
            Part::Align => self
                .bytes
                .resize(self.bytes.len().next_multiple_of(4096), 0),
            Part::Header {
                start,
                pages: n,
                unit,
                epoch: counter,
            } => {
                let header = SegmentHeader {
                    log_id: LOG,
                    start: pages(*start),
                    len: pages(*n).0,
                    write_unit: 512 << (unit % 8),
                    epoch: epoch(*counter),
                    unwritten: counter % 2 == 1,
                };
                self.start = Lsn(header.start.0.saturating_sub(self.bytes.len() as u64));
                self.bytes.extend_from_slice(&header.encode());
                self.bytes
                    .resize(self.bytes.len().next_multiple_of(4096), 0);
            }
            Part::Sealed(magic, bytes) => {
                let bytes = match magic {
                    Magic::Live => sealed(b"LFLIVE", bytes, 4096),
                    Magic::Segment => sealed(b"LFSEGM", bytes, 128),
                    Magic::Batch => {
                        let mut all = sealed(b"LFBTCH", bytes, BATCH_HEADER_LEN);
                        self.link = seal_batch(&mut all);
                        all
                    }
                };
                self.bytes.extend_from_slice(&bytes);
            }
            Part::Batch { .. } => self.batch(part),
        }
    }

    fn batch(&mut self, part: &Part<'_>) {
        let Part::Batch {
            lsn,
            kind,
            epoch: counter,
            prev_epoch,
            stamp,
            void_from,
            last_void,
            linked,
            frames,
        } = part
        else {
            return;
        };
        let mut payload = Vec::new();
        for (flags, data) in frames {
            payload.extend_from_slice(&(data.len() as u32).to_le_bytes());
            payload.extend_from_slice(&[flags % 32, 0, 0, 0]);
            payload.extend_from_slice(data);
            payload.resize(payload.len().next_multiple_of(8), 0);
        }
        let here = self.start.plus(self.bytes.len() as u64);
        let lsn = lsn.map_or(here, sectors);
        let kinds = [
            BatchKind::Data,
            BatchKind::Stamp,
            BatchKind::Epoch,
            BatchKind::Void,
        ];
        let header = BatchHeader {
            log_id: LOG,
            lsn,
            epoch: epoch(*counter),
            kind: kinds[usize::from(*kind) % 4],
            stamp: sectors(*stamp).min(lsn),
            void_from: void_from.map_or(lsn, sectors),
            last_void: sectors(*last_void),
            prev_crc: if *linked { self.link } else { 0 },
            payload_len: payload.len() as u32,
            payload_crc: payload_crc(0, &payload),
            frames: frames.len() as u32,
            prev_epoch: epoch(*prev_epoch),
            crc: 0,
        };
        let mut bytes = header.encode();
        self.link = seal(&mut bytes);
        self.bytes.extend_from_slice(&bytes);
        self.bytes.extend_from_slice(&payload);
        self.bytes.resize(self.bytes.len().next_multiple_of(512), 0);
    }
}

fn control(file: &ControlFile<'_>) -> Option<Vec<u8>> {
    match file {
        ControlFile::None => None,
        ControlFile::Raw(bytes) => Some(bytes.to_vec()),
        ControlFile::Slots(slots) => {
            let mut bytes = vec![0; CONTROL_FILE_LEN as usize];
            for (slot, at) in slots.iter().zip(CONTROL_SLOT_OFFSETS) {
                for (to, from) in bytes[at as usize..].iter_mut().zip(slot.bytes()) {
                    *to = from;
                }
            }
            Some(bytes)
        }
    }
}

pub(super) fn run(input: Input<'_>) {
    let disk = SimDisk::new(disk_options(), 1);
    if let Some(bytes) = control(&input.control) {
        disk.put_file(PATH, "control", &bytes);
    }
    let mut link = 0;
    for (name, parts) in input.files.iter().take(FILES) {
        let mut making = Making {
            link,
            ..Making::default()
        };
        for part in parts {
            if making.bytes.len() < LONGEST {
                making.add(part);
            }
        }
        link = making.link;
        making.bytes.truncate(LONGEST);
        let name = name.text();
        if !name.is_empty() && name != "control" {
            disk.put_file(PATH, &name, &making.bytes);
        }
    }
    match input.how {
        How::Walk | How::Salvage => {
            let _ = opening::walk(&disk, matches!(input.how, How::Salvage));
        }
        How::Read => {
            let _ = opening::read_only(&disk);
        }
        How::Follow => {
            opening::follow(&disk);
        }
        How::Write | How::Truncate => {
            let on_damage = match input.how {
                How::Truncate => OnDamage::Repair,
                _ => OnDamage::Refuse,
            };
            if let Ok(written) = opening::write(&disk, &options(16 << 10), on_damage) {
                written.check();
            }
        }
    }
}
