//! Legal values of every type, and frames of all sorts.
#![allow(missing_docs)]

use crate::support::*;
use logforce_format::frame::FrameHeader;
use logforce_format::*;
use proptest::collection::vec;
use proptest::prelude::*;

pub fn epochs() -> impl Strategy<Value = Epoch> {
    (1..u64::MAX, any::<u64>()).prop_map(|(counter, nonce)| Epoch { counter, nonce })
}

pub fn log_ids() -> impl Strategy<Value = LogId> {
    any::<[u8; 16]>().prop_map(LogId)
}

/// Legal headers of all kinds. Sealing sets payload length, frames and checksums.
pub fn headers() -> impl Strategy<Value = BatchHeader> {
    let positions = (1..u64::MAX).prop_flat_map(|lsn| (Just(lsn), 0..=lsn, 0..lsn, 0..lsn));
    let prev = epochs().prop_flat_map(|e| (Just(e), 0..e.counter, any::<u64>()));
    (0..4u8, log_ids(), positions, prev, any::<u32>()).prop_map(
        |(kind, log_id, (lsn, stamp, below, last_void), (epoch, counter, nonce), prev_crc)| {
            let kind = [
                BatchKind::Data,
                BatchKind::Stamp,
                BatchKind::Epoch,
                BatchKind::Void,
            ][usize::from(kind)];
            BatchHeader {
                log_id,
                lsn: Lsn(lsn),
                epoch,
                kind,
                stamp: Lsn(stamp),
                void_from: Lsn(match kind {
                    BatchKind::Void => below,
                    BatchKind::Epoch if prev_crc % 2 == 0 => below,
                    _ => lsn,
                }),
                last_void: Lsn(last_void),
                prev_crc,
                payload_len: 0,
                payload_crc: 0,
                frames: 0,
                prev_epoch: match kind {
                    BatchKind::Epoch => Epoch { counter, nonce },
                    _ => Epoch::default(),
                },
                crc: 0,
            }
        },
    )
}

pub fn units() -> impl Strategy<Value = u32> {
    (9..=16u32).prop_map(|bits| 1 << bits)
}

pub fn records() -> impl Strategy<Value = Vec<Made>> {
    vec(vec(any::<u8>(), 0..80).prop_map(|d| frame(&d, "fl")), 1..8)
}

/// Sealed batch of any kind, with its write unit.
pub fn batches() -> impl Strategy<Value = (BatchHeader, Vec<u8>, Vec<Made>)> {
    (headers(), records(), units()).prop_map(|(h, records, unit)| {
        let records = if h.kind == BatchKind::Data {
            records
        } else {
            Vec::new()
        };
        let batch = sealed(h, &payload(&records), records.len() as u32, unit);
        (h, batch, records)
    })
}

pub fn controls() -> impl Strategy<Value = Control> {
    let positions = any::<[u64; 4]>().prop_map(|mut p| {
        p.sort_unstable();
        p
    });
    let positions = (positions, any::<u64>());
    let counters = vec(any::<u64>(), 1..EPOCH_HISTORY + 1).prop_map(|mut c| {
        c.sort_unstable_by(|a, b| b.cmp(a));
        c.dedup();
        c
    });
    let words = (
        any::<u64>(),
        any::<u32>(),
        any::<u32>(),
        any::<bool>(),
        any::<u64>(),
        any::<bool>(),
    );
    (log_ids(), positions, counters, words).prop_map(|(log_id, (p, void), counters, w)| {
        let mut history: Vec<Epoch> = counters
            .iter()
            .map(|&counter| Epoch {
                counter,
                nonce: counter.rotate_left(13) ^ w.0,
            })
            .collect();
        let epoch = history.remove(0);
        Control {
            log_id,
            sequence: w.0,
            front: Lsn(p[1]),
            first_segment: Lsn(p[0]),
            prepared_end: Lsn(p[3]),
            write_limit: match (w.3, w.5) {
                (true, _) => Lsn::ORIGIN,
                (_, true) => Lsn(p[2]),
                _ => Lsn(p[3]),
            },
            first_prev_crc: w.1,
            clean: w.3,
            has_meta: w.5,
            anchor: Anchor {
                lsn: Lsn(p[2]),
                prev_crc: w.2,
                epoch: Epoch {
                    counter: w.4.min(epoch.counter),
                    nonce: w.4,
                },
                last_void: Lsn(void.min(p[2])),
            },
            epoch,
            history,
        }
    })
}

pub fn segments() -> impl Strategy<Value = SegmentHeader> {
    (
        log_ids(),
        0..u64::MAX / 1024,
        any::<u64>(),
        units(),
        epochs(),
        any::<bool>(),
    )
        .prop_filter_map(
            "geometry",
            |(log_id, start, len, write_unit, epoch, unwritten)| {
                let units = MAX_SEGMENT_LEN / u64::from(write_unit);
                let (start, len) = (start * 512, (len % units + 1) * u64::from(write_unit));
                SegmentHeader::geometry_is_valid(Lsn(start), len, write_unit).then_some(
                    SegmentHeader {
                        log_id,
                        start: Lsn(start),
                        len,
                        write_unit,
                        epoch,
                        unwritten,
                    },
                )
            },
        )
}

/// Frames with arbitrary flags.
pub fn any_frames() -> impl Strategy<Value = Vec<FrameHeader>> {
    let header = (0..16u8, 1..100u32).prop_map(|(bits, len)| FrameHeader {
        len,
        first: bits & 1 > 0,
        last: bits & 2 > 0,
        joined: bits & 4 > 0,
        follows: bits & 8 > 0,
    });
    vec(header, 0..8)
}

/// Frames as a writer makes them: appends of one or more records, each in one or more frames.
pub fn legal_frames() -> impl Strategy<Value = Vec<FrameHeader>> {
    vec(vec(1..5usize, 1..4), 1..6).prop_map(|appends| {
        let mut out = Vec::new();
        for records in &appends {
            for (r, &fragments) in records.iter().enumerate() {
                for f in 0..fragments {
                    out.push(FrameHeader {
                        len: 8,
                        first: f == 0,
                        last: f + 1 == fragments,
                        joined: r + 1 < records.len(),
                        follows: r > 0,
                    });
                }
            }
        }
        out
    })
}

pub fn metas() -> impl Strategy<Value = Meta> {
    let sequence = any::<u64>().prop_map(|s| s.max(1));
    let bytes = vec(any::<u8>(), 0..MAX_META_LEN + 1);
    (log_ids(), sequence, bytes).prop_map(|(log_id, sequence, bytes)| Meta {
        log_id,
        sequence,
        bytes,
    })
}
