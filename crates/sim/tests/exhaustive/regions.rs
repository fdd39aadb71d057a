//! Regions of a log's files.

use logforce_format::{
    BATCH_HEADER_LEN, CONTROL_SLOT_LEN, CONTROL_SLOT_OFFSETS, META_SLOT_LEN, META_SLOT_OFFSETS,
    SEGMENT_HEADER_LEN, SegmentHeader,
};
use logforce_sim::fixture::Fixture;
use std::ops::Range;

/// Structure that a byte belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Region {
    /// The header of the batch of this number.
    BatchHeader(usize),
    /// The payload of the batch of this number.
    Payload(usize),
    /// The header of the segment of this number.
    SegmentHeader(usize),
    /// The fields of a slot of the control file.
    ControlSlot(usize),
    /// The fields and contents of a slot of the metadata.
    MetaSlot(usize),
    /// The zeroes of those slots, which their checksums cover.
    ControlRest(usize),
    /// The same zeroes in a slot of the metadata.
    MetaRest(usize),
    /// The beginning of a write unit where a batch could begin but none does.
    UnitHead,
    /// The part of a torn write that exists.
    Torn,
    /// The page of statistics.
    Live,
    /// Padding, header areas, units never written, the space between the slots.
    Void,
}

/// A range of bytes of one file.
#[derive(Debug, Clone)]
pub struct Part {
    /// Name of the file.
    pub file: String,
    /// Offsets of the bytes.
    pub bytes: Range<usize>,
    /// Region that they belong to.
    pub region: Region,
}

/// Returns parts that cover every byte of every file once.
pub fn parts(fixture: &Fixture) -> Vec<Part> {
    let mut parts = Vec::new();
    for (file, bytes) in &fixture.image.files {
        let mut known = known(fixture, file);
        known.sort_by_key(|(range, _)| range.start);
        let mut at = 0;
        let mut put = |bytes: Range<usize>, region| {
            if !bytes.is_empty() {
                let file = file.clone();
                parts.push(Part {
                    file,
                    bytes,
                    region,
                });
            }
        };
        for (range, region) in known {
            assert!(at <= range.start, "{file}: {range:?} {region:?} overlaps");
            put(at..range.start, Region::Void);
            at = range.end;
            put(range, region);
        }
        put(at..bytes.len(), Region::Void);
    }
    let bytes = |p: &Part| p.bytes.len();
    let all: usize = fixture.image.files.values().map(|f| f.len()).sum();
    assert_eq!(parts.iter().map(bytes).sum::<usize>(), all);
    parts
}

fn known(fixture: &Fixture, file: &str) -> Vec<(Range<usize>, Region)> {
    let mut known = Vec::new();
    let mut put = |from: usize, len: usize, region| known.push((from..from + len, region));
    match file {
        "control" => {
            // The history of these logs ends well before this offset.
            let said = 256 + 16 * 8;
            for (n, at) in CONTROL_SLOT_OFFSETS.into_iter().enumerate() {
                put(at as usize, said, Region::ControlSlot(n));
                let rest = CONTROL_SLOT_LEN - said;
                put(at as usize + said, rest, Region::ControlRest(n));
            }
            let said = 96 + fixture.model.meta.as_ref().map_or(0, Vec::len);
            for (n, at) in META_SLOT_OFFSETS.into_iter().enumerate() {
                put(at as usize, said, Region::MetaSlot(n));
                put(
                    at as usize + said,
                    META_SLOT_LEN - said,
                    Region::MetaRest(n),
                );
            }
        }
        "live" => put(0, fixture.image.files[file].len(), Region::Live),
        _ => {}
    }
    let segments = &fixture.look.summary.segments;
    if let Some(n) = segments.iter().position(|s| s.name == file) {
        let (s, unit) = (&segments[n], segments[n].write_unit as usize);
        put(0, SEGMENT_HEADER_LEN, Region::SegmentHeader(n));
        let mut at = SegmentHeader::data_offset(s.write_unit) as usize;
        while at < s.len as usize {
            let here = |b: &&_| {
                let b: &logforce_core::BatchInfo = b;
                b.file == *file && b.offset as usize == at
            };
            if let Some(torn) = &fixture.torn
                && torn.lsn == s.start.plus(at as u64)
            {
                let said = BATCH_HEADER_LEN + torn.payload_len as usize;
                put(at, said, Region::Torn);
                at += said.next_multiple_of(unit);
                continue;
            }
            let Some(b) = fixture.batches.iter().position(|b| here(&b)) else {
                put(at, BATCH_HEADER_LEN, Region::UnitHead);
                at += unit;
                continue;
            };
            put(at, BATCH_HEADER_LEN, Region::BatchHeader(b));
            let batch = &fixture.batches[b];
            let payload = batch.payload_len as usize;
            put(at + BATCH_HEADER_LEN, payload, Region::Payload(b));
            at += batch.end.since(batch.lsn) as usize;
        }
    }
    known
}
