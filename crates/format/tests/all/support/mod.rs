//! Helpers of the format's tests. They do not use the crate's own checksums or offsets, so that they are an
//! independent check.
#![allow(dead_code, missing_docs)]

use logforce_format::frame::{FrameHeader, frame_len};
use logforce_format::{
    Anchor, BATCH_HEADER_LEN, BatchHeader, BatchKind, Control, Epoch, Expected, Live, LiveSummary,
    LogId, Lsn, Meta, SegmentHeader, seal,
};

/// Returns the CRC-32C, computed bit by bit from its definition.
pub fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |mut crc, &byte| {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
        }
        crc
    })
}

/// Corrects the checksum at offset 8, where batch headers, segment headers and control slots all have theirs.
pub fn fix(bytes: &mut [u8]) {
    bytes[8..12].fill(0);
    let crc = crc32c(bytes);
    bytes[8..12].copy_from_slice(&crc.to_le_bytes());
}

pub const LOG: LogId = LogId(*b"the id of a log!");
pub const FIRST: Epoch = Epoch {
    counter: 6,
    nonce: 0x6666_0000_0000_6666,
};
pub const SECOND: Epoch = Epoch {
    counter: 7,
    nonce: 0x7777_0000_0000_7777,
};

/// Makes a legal data batch of `SECOND` at LSN 8192.
pub fn data_header() -> BatchHeader {
    BatchHeader {
        log_id: LOG,
        lsn: Lsn(8192),
        epoch: SECOND,
        kind: BatchKind::Data,
        stamp: Lsn(4608),
        void_from: Lsn(8192),
        last_void: Lsn(4096),
        prev_crc: 0x1234_5678,
        payload_len: 0,
        payload_crc: 0,
        frames: 0,
        prev_epoch: Epoch::default(),
        crc: 0,
    }
}

pub fn epoch_header() -> BatchHeader {
    BatchHeader {
        kind: BatchKind::Epoch,
        prev_epoch: FIRST,
        ..data_header()
    }
}

pub fn stamp_header() -> BatchHeader {
    BatchHeader {
        kind: BatchKind::Stamp,
        ..data_header()
    }
}

pub fn void_header() -> BatchHeader {
    BatchHeader {
        kind: BatchKind::Void,
        void_from: Lsn(6000),
        ..data_header()
    }
}

/// Returns the expectation that `header` meets.
pub fn expected(header: &BatchHeader) -> Expected {
    Expected {
        log_id: header.log_id,
        lsn: header.lsn,
        segment_end: Lsn(1 << 20),
        write_unit: 512,
        epoch: match header.kind {
            BatchKind::Epoch => header.prev_epoch,
            _ => header.epoch,
        },
        prev_crc: header.prev_crc,
    }
}

/// Header and data of a frame.
pub type Made = (FrameHeader, Vec<u8>);

pub fn frame(data: &[u8], flags: &str) -> Made {
    let header = FrameHeader {
        len: data.len() as u32,
        first: flags.contains('f'),
        last: flags.contains('l'),
        joined: flags.contains('j'),
        follows: flags.contains('o'),
    };
    (header, data.to_vec())
}

/// Returns the bytes of frames one after another.
pub fn payload(frames: &[Made]) -> Vec<u8> {
    let mut out = Vec::new();
    for (header, data) in frames {
        let end = out.len() + frame_len(data.len());
        out.extend_from_slice(&header.encode());
        out.extend_from_slice(data);
        out.resize(end, 0);
    }
    out
}

/// Makes a sealed batch, including padding.
pub fn sealed(mut header: BatchHeader, payload: &[u8], frames: u32, unit: u32) -> Vec<u8> {
    header.payload_len = payload.len() as u32;
    header.frames = frames;
    header.payload_crc = logforce_format::payload_crc(0, payload);
    let mut batch = vec![0xee; header.extent(unit) as usize];
    batch[BATCH_HEADER_LEN..BATCH_HEADER_LEN + payload.len()].copy_from_slice(payload);
    seal(&mut batch, &mut header);
    batch
}

/// Makes a data batch of one record.
pub fn one_record(data: &[u8]) -> Vec<u8> {
    sealed(data_header(), &payload(&[frame(data, "fl")]), 1, 512)
}

pub fn segment() -> SegmentHeader {
    SegmentHeader {
        log_id: LOG,
        start: Lsn(1 << 20),
        len: 1 << 20,
        write_unit: 512,
        epoch: SECOND,
        unwritten: false,
    }
}

pub fn control() -> Control {
    Control {
        log_id: LOG,
        sequence: 41,
        front: Lsn(0x0120_0000),
        first_segment: Lsn(0x0100_0000),
        prepared_end: Lsn(0x0200_0000),
        // Unknown, as in logs from before this limit existed.
        write_limit: Lsn::ORIGIN,
        first_prev_crc: 0x1111_2222,
        clean: true,
        has_meta: false,
        anchor: Anchor {
            lsn: Lsn(0x0180_0000),
            prev_crc: 0x3333_4444,
            epoch: FIRST,
            last_void: Lsn(0x0130_0000),
        },
        epoch: SECOND,
        history: vec![FIRST],
    }
}

pub fn live() -> Live {
    Live {
        log_id: LOG,
        epoch: SECOND,
        pid: 4711,
        written_at: 1_700_000_000_000_000_000,
        open_for: 5_000_000_000,
        durable: Lsn(0x0180_0000),
        oldest_io_age: 0,
        counters: vec![3, 2, 1],
        summaries: vec![LiveSummary {
            count: 10,
            sum: 1000,
            p50: 90,
            p90: 110,
            p99: 120,
            p999: 130,
            max: 140,
        }],
    }
}

pub fn meta() -> Meta {
    Meta {
        log_id: LOG,
        sequence: 9,
        bytes: b"term 12, vote 3".to_vec(),
    }
}

/// Returns a table of `docs/format.md`: the one behind `<!-- table: NAME -->`. Each row consists of its
/// cells, with the code quotes removed from cells.
pub fn table(name: &str) -> Vec<Vec<String>> {
    table_of("format.md", name)
}

/// Works as [`table`], for another page of `docs`.
pub fn table_of(page: &str, name: &str) -> Vec<Vec<String>> {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
    let path = std::path::Path::new(docs).join(page);
    let text = std::fs::read_to_string(path).expect("a page of docs");
    let marker = format!("<!-- table: {name} -->");
    let mut after = text.split(&marker);
    let _ = after.next();
    let part = after
        .next()
        .unwrap_or_else(|| panic!("docs/{page} has no table '{name}'"));
    assert!(after.next().is_none(), "two tables '{name}'");
    let rows: Vec<Vec<String>> = part
        .lines()
        .skip_while(|l| !l.starts_with('|'))
        .take_while(|l| l.starts_with('|'))
        .map(|l| {
            let cells = l.trim().trim_matches('|').split('|');
            cells.map(|c| c.trim().replace('`', "")).collect()
        })
        .collect();
    assert!(rows.len() > 2, "table '{name}' is empty");
    let width = rows[0].len();
    assert!(rows.iter().all(|r| r.len() == width), "ragged: '{name}'");
    rows[2..].to_vec()
}

/// Returns the names of all tables in the document.
pub fn tables() -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/format.md");
    let text = std::fs::read_to_string(path).expect("docs/format.md");
    text.lines()
        .filter_map(|l| l.strip_prefix("<!-- table: ")?.strip_suffix(" -->"))
        .map(str::to_owned)
        .collect()
}

/// Returns the number of tables in the document, marked or not.
pub fn table_count() -> usize {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/format.md");
    let text = std::fs::read_to_string(path).expect("docs/format.md");
    text.lines().filter(|l| l.starts_with("|---")).count()
}

/// Returns the header bytes of a legal data batch.
pub fn data_header_with_record() -> Vec<u8> {
    one_record(b"a record")[..BATCH_HEADER_LEN].to_vec()
}
