//! Tests every reason for rejecting bytes with crafted bytes. `NAMES` comes from a match without a wildcard,
//! so a new reason without a test fails here.

use crate::support::*;
use logforce_format::frame::Sequence;
use logforce_format::*;
use std::collections::BTreeSet;

/// Checks the bytes at a boundary as a reader does.
fn read(bytes: &[u8], e: &Expected) -> Result<BatchHeader, Reject> {
    let h = BatchHeader::decode(bytes)?;
    h.check_link(e)?;
    let end = (BATCH_HEADER_LEN + h.payload_len as usize).min(bytes.len());
    let payload = &bytes[BATCH_HEADER_LEN..end];
    h.check_payload(payload)?;
    let base = h.lsn.plus(BATCH_HEADER_LEN as u64);
    Sequence::default()
        .push_all(payload, base, h.frames)
        .map_err(|_| Reject::Frames)?;
    Ok(h)
}

/// Makes a sealed batch with `change` applied to its bytes and the header checksum corrected.
fn forged(header: BatchHeader, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut batch = match header.kind {
        BatchKind::Data => sealed(header, &payload(&[frame(b"a record", "fl")]), 1, 512),
        _ => sealed(header, &[], 0, 512),
    };
    change(&mut batch);
    fix(&mut batch[..BATCH_HEADER_LEN]);
    batch
}

fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

fn u64s(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

#[test]
fn batches() {
    let plain = expected(&data_header());
    // The crafting itself is right: an unchanged batch is accepted.
    for h in [data_header(), epoch_header(), stamp_header(), void_header()] {
        let got = read(&forged(h, |_| {}), &expected(&h)).unwrap();
        assert_eq!((got.kind, got.lsn), (h.kind, h.lsn));
    }
    let data = |change: &dyn Fn(&mut [u8])| (forged(data_header(), change), plain);
    let of = |h: BatchHeader, change: &dyn Fn(&mut [u8])| (forged(h, change), expected(&h));
    let expecting = |change: &dyn Fn(&mut Expected)| {
        let mut e = plain;
        change(&mut e);
        (forged(data_header(), |_| {}), e)
    };
    let unfixed = |at: usize| {
        let mut batch = one_record(b"a record");
        batch[at] ^= 0x10;
        (batch, plain)
    };
    let framed = |payload: Vec<u8>, frames| (sealed(data_header(), &payload, frames, 512), plain);
    let record = |flags| payload(&[frame(b"a record", flags)]);
    let lsn = data_header().lsn.0;
    let max = MAX_BATCH_LEN - BATCH_HEADER_LEN as u32;

    let mut reached = BTreeSet::new();
    let mut check = |what: &str, (bytes, e): (Vec<u8>, Expected), reject: Reject| {
        assert_eq!(read(&bytes, &e), Err(reject), "{what}");
        reached.insert(reject.name());
    };
    check("zeroes", (vec![0; 512], plain), Reject::Zero);
    check("nothing", (vec![], plain), Reject::Magic);
    check("short zeroes", (vec![0; 127], plain), Reject::Magic);
    check(
        "short",
        (one_record(b"x")[..127].to_vec(), plain),
        Reject::Magic,
    );
    check("text", (vec![b'x'; 512], plain), Reject::Magic);
    check("zeroed start", data(&|b| b[..6].fill(0)), Reject::Magic);
    check("torn header", unfixed(40), Reject::HeaderChecksum);
    check("newer, torn", unfixed(6), Reject::HeaderChecksum);
    check("newer", data(&|b| b[6] = 2), Reject::Version(2));
    check("older", data(&|b| b[6] = 0), Reject::Version(0));
    check("kind 0", data(&|b| b[88] = 0), Reject::Kind(0));
    check("kind 5", data(&|b| b[88] = 5), Reject::Kind(5));
    check("reserved", data(&|b| b[90] = 1), Reject::Reserved);
    check("reserved end", data(&|b| b[127] = 1), Reject::Reserved);
    let too_long = max + 1;
    check(
        "too long",
        data(&|b| put(b, 84, &too_long.to_le_bytes())),
        Reject::Length(too_long),
    );
    check(
        "endless",
        data(&|b| put(b, 84, &[0xff; 4])),
        Reject::Length(u32::MAX),
    );
    check("empty", data(&|b| put(b, 84, &[0; 4])), Reject::Length(0));
    check(
        "no frames",
        data(&|b| put(b, 92, &[0; 4])),
        Reject::Length(16),
    );
    check(
        "stamp with data",
        of(stamp_header(), &|b| {
            put(b, 84, &16u32.to_le_bytes());
            put(b, 92, &1u32.to_le_bytes());
        }),
        Reject::Length(16),
    );
    check(
        "stamp ahead",
        data(&|b| put(b, 56, &u64s(&[lsn + 1]))),
        Reject::StampAhead,
    );
    check(
        "data voids",
        data(&|b| put(b, 64, &u64s(&[lsn - 8]))),
        Reject::VoidRange,
    );
    check(
        "voids ahead",
        data(&|b| put(b, 64, &u64s(&[lsn + 8]))),
        Reject::VoidRange,
    );
    check(
        "voids nothing",
        of(void_header(), &|b| put(b, 64, &u64s(&[lsn]))),
        Reject::VoidRange,
    );
    check(
        "epoch ahead",
        of(epoch_header(), &|b| put(b, 64, &u64s(&[lsn + 8]))),
        Reject::VoidRange,
    );
    check(
        "list of itself",
        data(&|b| put(b, 72, &u64s(&[lsn]))),
        Reject::VoidRange,
    );
    check(
        "list upwards",
        data(&|b| put(b, 72, &u64s(&[lsn + 8]))),
        Reject::VoidRange,
    );
    let origin = |b: &mut [u8]| {
        put(b, 32, &u64s(&[0]));
        put(b, 56, &u64s(&[0, 0, 0]));
    };
    check("at the origin", data(&origin), Reject::VoidRange);
    check(
        "data with predecessor",
        data(&|b| b[96] = 1),
        Reject::PrevEpoch,
    );
    check(
        "epoch after itself",
        of(epoch_header(), &|b| put(b, 96, &u64s(&[7]))),
        Reject::PrevEpoch,
    );
    check(
        "epoch 0",
        data(&|b| put(b, 40, &u64s(&[0]))),
        Reject::PrevEpoch,
    );
    check(
        "other log",
        expecting(&|e| e.log_id.0[3] ^= 1),
        Reject::ForeignLog,
    );
    check(
        "elsewhere",
        expecting(&|e| e.lsn.0 += 512),
        Reject::WrongLsn(Lsn(lsn)),
    );
    check(
        "past the end",
        expecting(&|e| e.segment_end = Lsn(lsn + 511)),
        Reject::PastSegment,
    );
    check(
        "earlier",
        expecting(&|e| e.epoch.counter = 8),
        Reject::EpochLower(7),
    );
    check(
        "later",
        expecting(&|e| e.epoch.counter = 6),
        Reject::EpochUnlinked(7),
    );
    check(
        "a twin's",
        expecting(&|e| e.epoch.nonce ^= 1),
        Reject::EpochUnlinked(7),
    );
    let mut other = expected(&epoch_header());
    other.epoch.nonce ^= 1;
    check(
        "a twin's epoch",
        (forged(epoch_header(), |_| {}), other),
        Reject::EpochUnlinked(7),
    );
    check("chain", expecting(&|e| e.prev_crc ^= 1), Reject::Chain);
    check(
        "torn payload",
        unfixed(BATCH_HEADER_LEN + 3),
        Reject::PayloadChecksum,
    );
    let cut = one_record(&[7; 600])[..512].to_vec();
    check("cut payload", (cut, plain), Reject::PayloadChecksum);
    let empty_sum = of(stamp_header(), &|b| b[12] = 1);
    check("checksum of nothing", empty_sum, Reject::PayloadChecksum);
    check("fewer frames", framed(record("fl"), 2), Reject::Frames);
    check(
        "more frames",
        framed([record("fl"), record("fl")].concat(), 1),
        Reject::Frames,
    );
    check(
        "half a header",
        framed([record("fl"), vec![0; 4]].concat(), 1),
        Reject::Frames,
    );
    check("out of nowhere", framed(record("l"), 1), Reject::Frames);
    let mut long = record("fl");
    long[0] = 9;
    check("beyond the payload", framed(long, 1), Reject::Frames);
    let mut padded = payload(&[frame(b"odd", "fl")]);
    padded[15] = 1;
    check("dirty padding", framed(padded, 1), Reject::Frames);
    check(
        "empty fragment",
        framed(payload(&[frame(b"", "f")]), 1),
        Reject::Frames,
    );
    assert_eq!(reached, Reject::NAMES.iter().copied().collect());
}

#[test]
fn segments() {
    let valid = segment().encode();
    assert_eq!(SegmentHeader::decode(&valid), Ok(segment()));
    let mut reached = BTreeSet::new();
    let mut check = |what: &str, bytes: &[u8], reject: SegmentReject| {
        assert_eq!(SegmentHeader::decode(bytes), Err(reject), "{what}");
        reached.insert(reject.name());
    };
    let forged = |at: usize, field: &[u8]| {
        let mut b = valid;
        put(&mut b, at, field);
        fix(&mut b);
        b
    };
    check("short", &valid[..127], SegmentReject::Magic);
    check("zeroes", &[0; 4096], SegmentReject::Magic);
    let mut torn = valid;
    torn[33] ^= 1;
    check("torn", &torn, SegmentReject::Checksum);
    check("newer", &forged(6, &[9, 0]), SegmentReject::Version(9));
    check("reserved", &forged(100, &[1]), SegmentReject::Reserved);
    check("unwritten", &forged(64, &[2]), SegmentReject::Reserved);
    for (what, start, len, unit) in [
        ("unit 0", 0, 1 << 20, 0),
        ("unit 768", 0, 768 << 10, 768),
        ("unit too small", 0, 1 << 20, 256),
        ("unit too large", 0, 1 << 20, 128 << 10),
        ("too short", 0, MIN_SEGMENT_LEN - 512, 512),
        ("too short for its unit", 0, 64 << 10, 64 << 10),
        ("too long", 0, MAX_SEGMENT_LEN + 4096, 4096),
        ("uneven", 0, (1 << 20) + 512, 4096),
        ("past the end of the stream", u64::MAX - 7, 1 << 20, 512),
        ("odd start", 8, 1 << 20, 512),
    ] {
        let mut b = forged(32, &u64s(&[start, len]));
        put(&mut b, 12, &u32::to_le_bytes(unit));
        fix(&mut b);
        check(what, &b, SegmentReject::Geometry);
    }
    assert_eq!(reached, SegmentReject::NAMES.iter().copied().collect());
}

#[test]
fn controls() {
    let valid = control().encode();
    assert_eq!(Control::decode(&valid), Ok(control()));
    let mut reached = BTreeSet::new();
    let mut check = |what: &str, bytes: &[u8], reject: ControlReject| {
        assert_eq!(Control::decode(bytes), Err(reject), "{what}");
        reached.insert(reject.name());
    };
    let forged = |at: usize, field: &[u8]| {
        let mut b = valid;
        put(&mut b, at, field);
        fix(&mut b);
        b
    };
    check("short", &valid[..4095], ControlReject::Magic);
    check("zeroes", &[0; 4096], ControlReject::Magic);
    let mut torn = valid;
    torn[4095] ^= 1;
    check("torn", &torn, ControlReject::Checksum);
    check("newer", &forged(6, &[2, 0]), ControlReject::Version(2));
    check("flags", &forged(12, &[2]), ControlReject::Reserved);
    check("flags above", &forged(15, &[1]), ControlReject::Reserved);
    check("metadata 2", &forged(104, &[2]), ControlReject::Reserved);
    check("reserved", &forged(108, &[1]), ControlReject::Reserved);
    check(
        "behind the count",
        &forged(132, &[1]),
        ControlReject::Reserved,
    );
    check(
        "more than counted",
        &forged(256 + 16, &[1]),
        ControlReject::Reserved,
    );
    let full = u32::to_le_bytes(EPOCH_HISTORY as u32 + 1);
    check(
        "too long a history",
        &forged(128, &full),
        ControlReject::Reserved,
    );
    check(
        "endless history",
        &forged(128, &[0xff; 4]),
        ControlReject::Reserved,
    );
    let c = control();
    type Change = fn(&mut Control);
    let contradictions: [(&str, Change); 9] = [
        ("front below the first segment", |c| {
            c.front.0 = c.first_segment.0 - 1
        }),
        ("front above the anchor", |c| c.front.0 = c.anchor.lsn.0 + 1),
        ("anchor below the front", |c| c.anchor.lsn.0 = c.front.0 - 1),
        ("anchor above the segments", |c| {
            c.anchor.lsn.0 = c.prepared_end.0 + 1
        }),
        ("segments below the first", |c| {
            c.prepared_end.0 = c.first_segment.0 - 1
        }),
        ("void above the anchor", |c| {
            c.anchor.last_void.0 = c.anchor.lsn.0 + 1
        }),
        ("anchor of a later epoch", |c| {
            c.anchor.epoch.counter = c.epoch.counter + 1
        }),
        ("history does not fall", |c| c.history = vec![c.epoch]),
        ("history rises", |c| c.history = vec![FIRST, FIRST]),
    ];
    for (what, change) in contradictions {
        let mut c = c.clone();
        change(&mut c);
        check(what, &c.encode(), ControlReject::Contradiction);
    }
    assert_eq!(reached, ControlReject::NAMES.iter().copied().collect());
}

#[test]
fn pages_of_statistics() {
    let valid = live().encode();
    assert_eq!(Live::decode(&valid), Ok(live()));
    let mut reached = BTreeSet::new();
    let mut check = |what: &str, bytes: &[u8], reject: LiveReject| {
        assert_eq!(Live::decode(bytes), Err(reject), "{what}");
        reached.insert(reject.name());
    };
    let forged = |at: usize, field: &[u8]| {
        let mut b = valid;
        put(&mut b, at, field);
        fix(&mut b);
        b
    };
    check("short", &valid[..4095], LiveReject::Magic);
    check("zeroes", &[0; 4096], LiveReject::Magic);
    for bit in 48..8 * LIVE_LEN {
        let mut torn = valid;
        torn[bit / 8] ^= 1 << (bit % 8);
        check("torn", &torn, LiveReject::Checksum);
    }
    check("newer", &forged(6, &[2, 0]), LiveReject::Version(2));
    check("reserved", &forged(88, &[1]), LiveReject::Reserved);
    check("more counters", &forged(12, &[129]), LiveReject::Reserved);
    check("endless", &forged(12, &[0xff; 4]), LiveReject::Reserved);
    check("more summaries", &forged(14, &[33]), LiveReject::Reserved);
    let behind = forged(128 + 24, &[1]);
    check("behind the counters", &behind, LiveReject::Reserved);
    let behind = forged(1152 + 56, &[1]);
    check("behind the summaries", &behind, LiveReject::Reserved);
    assert_eq!(reached, LiveReject::NAMES.iter().copied().collect());

    // Excess counters and summaries are left out.
    let mut long = live();
    long.counters = vec![1; LIVE_COUNTERS + 9];
    long.summaries = vec![LiveSummary::default(); LIVE_SUMMARIES + 9];
    let read = Live::decode(&long.encode()).unwrap();
    assert_eq!(read.counters.len(), LIVE_COUNTERS);
    assert_eq!(read.summaries.len(), LIVE_SUMMARIES);
}

#[test]
fn metas() {
    let valid = meta().encode();
    assert_eq!(Meta::decode(&valid, LOG), Ok(meta()));
    let mut reached = BTreeSet::new();
    let mut check = |what: &str, bytes: &[u8], reject: MetaReject| {
        assert_eq!(Meta::decode(bytes, LOG), Err(reject), "{what}");
        reached.insert(reject.name());
    };
    let forged = |at: usize, field: &[u8]| {
        let mut b = valid;
        put(&mut b, at, field);
        fix(&mut b);
        b
    };
    check("nothing", &[], MetaReject::Absent);
    check("zeroes", &[0; 4096], MetaReject::Absent);
    check("few zeroes", &[0; 100], MetaReject::Absent);
    check("short", &valid[..4095], MetaReject::Magic);
    let mut torn = valid;
    torn[..6].fill(0);
    check("zeroed start", &torn, MetaReject::Magic);
    let mut torn = valid;
    torn[512..].fill(0xff);
    check("torn", &torn, MetaReject::Checksum);
    check("newer", &forged(6, &[2, 0]), MetaReject::Version(2));
    let long = u32::to_le_bytes(MAX_META_LEN as u32 + 1);
    check("too long", &forged(12, &long), MetaReject::Length);
    check("endless", &forged(12, &[0xff; 4]), MetaReject::Length);
    check("no sequence", &forged(32, &[0; 8]), MetaReject::Length);
    check("reserved", &forged(95, &[1]), MetaReject::Reserved);
    let behind = forged(96 + meta().bytes.len(), &[1]);
    check("behind the length", &behind, MetaReject::Reserved);
    check("the last", &forged(4095, &[1]), MetaReject::Reserved);
    check("another log's", &forged(16, b"A"), MetaReject::ForeignLog);
    // The only reason that does not depend on the bytes: the reader of the slot reports it.
    reached.insert(MetaReject::Unreadable.name());
    assert_eq!(reached, MetaReject::NAMES.iter().copied().collect());
}
