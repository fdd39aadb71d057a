//! Contents of the log on a simulated disk at some moment, read batch by batch without the log's code.

use logforce_core::Lsn;
use logforce_format::frame::FRAME_HEADER_LEN;
use logforce_format::{BATCH_HEADER_LEN, BatchHeader, SegmentHeader};
use logforce_testkit::SimDisk;

/// Layer of storage whose bytes count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// Bytes that remain after a power cut that loses everything volatile.
    Stable,
    /// Bytes that the running system sees.
    Visible,
}

/// Contiguous prefix of the log on the disk.
pub struct Medium {
    segments: Vec<(SegmentHeader, Vec<u8>)>,
    /// Exclusive end of the last batch that links to the one before.
    pub end: Lsn,
}

impl Medium {
    /// Walks the chain of batches from the first segment on.
    pub fn of(disk: &SimDisk, dir: &str, layer: Layer) -> Medium {
        let names = disk.stable_names(dir);
        let names = names.iter().filter(|n| n.ends_with(".seg"));
        let bytes = |name: &String| match layer {
            Layer::Stable => disk.file_bytes(dir, name),
            Layer::Visible => disk.visible_bytes(dir, name),
        };
        let mut segments: Vec<(SegmentHeader, Vec<u8>)> = names
            .filter_map(bytes)
            .filter_map(|bytes| Some((SegmentHeader::decode(&bytes).ok()?, bytes)))
            .collect();
        segments.sort_by_key(|(header, _)| header.start);
        let mut medium = Medium {
            segments,
            end: Lsn::ORIGIN,
        };
        medium.walk();
        medium
    }

    fn walk(&mut self) {
        let mut chain = None;
        for (segment, bytes) in &self.segments {
            let first = segment.first_batch();
            if chain.is_some() && self.end != segment.start {
                return;
            }
            let mut at = first;
            while at < segment.end() {
                let offset = at.since(segment.start) as usize;
                let Ok(batch) = BatchHeader::decode(&bytes[offset..]) else {
                    return;
                };
                let payload = offset + BATCH_HEADER_LEN;
                let payload = bytes.get(payload..payload + batch.payload_len as usize);
                let linked = chain.is_none_or(|crc| batch.prev_crc == crc);
                let whole = payload.is_some_and(|p| batch.check_payload(p).is_ok());
                if batch.lsn != at || !linked || !whole {
                    return;
                }
                chain = Some(batch.crc);
                at = batch.end(segment.write_unit);
                self.end = at;
            }
        }
    }

    /// Returns true if the record at `start` begins with these bytes.
    pub fn holds(&self, start: Lsn, tag: &[u8]) -> bool {
        let segment = self.segments.iter().find(|(s, _)| s.contains(start));
        segment.is_some_and(|(segment, bytes)| {
            let at = start.since(segment.start) as usize + FRAME_HEADER_LEN;
            bytes.get(at..at + tag.len()) == Some(tag)
        })
    }
}
