//! Known bytes. They are decoded to their expected meaning and encoded again to the same bytes, so that the
//! format cannot change by accident. `LOGFORCE_BLESS=1` writes the files again.

use crate::support::*;
use logforce_format::frame::{Frames, Sequence};
use logforce_format::*;
use std::fmt::Write;
use std::path::PathBuf;

/// Bytes with a comment for each part.
struct Part {
    label: String,
    bytes: Vec<u8>,
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.hex"))
}

/// Parses a golden file: `00*16` stands for sixteen zeroes, and `#` starts a comment.
fn parse(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in text
        .lines()
        .flat_map(|l| l.split('#').next().unwrap_or("").split_whitespace())
    {
        let (hex, times) = word.split_once('*').unwrap_or((word, "1"));
        let byte = u8::from_str_radix(hex, 16).expect("hex");
        bytes.resize(bytes.len() + times.parse::<usize>().expect("count"), byte);
    }
    bytes
}

fn print(title: &str, parts: &[Part]) -> String {
    let mut out = format!("# {title}\n");
    let mut at = 0;
    for part in parts {
        writeln!(out, "# {at}: {}", part.label).unwrap();
        at += part.bytes.len();
        let used = part
            .bytes
            .iter()
            .rposition(|&b| b != 0)
            .map_or(0, |i| i + 1);
        // Long zeroes at the end would hide the rest.
        let shown = if part.bytes.len() > used + 16 {
            used
        } else {
            part.bytes.len()
        };
        for line in part.bytes[..shown].chunks(16) {
            let hex: Vec<String> = line.iter().map(|b| format!("{b:02x}")).collect();
            writeln!(out, "{}", hex.join(" ")).unwrap();
        }
        if shown < part.bytes.len() {
            writeln!(out, "00*{}", part.bytes.len() - shown).unwrap();
        }
    }
    out
}

/// Splits encoded bytes by a table of the document, for the comments.
fn by_table(name: &str, bytes: &[u8]) -> Vec<Part> {
    let cut = |row: Vec<String>| {
        let (at, size): (usize, usize) = (row[0].parse().unwrap(), row[1].parse().unwrap());
        Part {
            label: row[2].clone(),
            bytes: bytes[at..at + size].to_vec(),
        }
    };
    table(name).into_iter().map(cut).collect()
}

fn batch_parts(batch: &[u8], frames: &[Made]) -> Vec<Part> {
    let mut parts = by_table("batch-header", &batch[..BATCH_HEADER_LEN]);
    let mut at = BATCH_HEADER_LEN;
    for f in frames {
        let bytes = payload(std::slice::from_ref(f));
        parts.push(Part {
            label: format!("{:?}", f.0),
            bytes: batch[at..at + bytes.len()].to_vec(),
        });
        at += bytes.len();
    }
    parts.push(Part {
        label: "padding".to_owned(),
        bytes: batch[at..].to_vec(),
    });
    parts
}

/// Compares with the file, or writes it. Returns the file's bytes.
fn golden(name: &str, title: &str, parts: &[Part]) -> Vec<u8> {
    let path = path(name);
    let built: Vec<u8> = parts.iter().flat_map(|p| p.bytes.clone()).collect();
    if std::env::var_os("LOGFORCE_BLESS").is_some() {
        std::fs::write(&path, print(title, parts)).expect("write golden file");
    }
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|e| panic!("{}: {e}; LOGFORCE_BLESS=1 makes it", path.display()));
    let bytes = parse(&text);
    assert!(
        bytes == built,
        "{name}: the bytes have changed; if that is intended, raise FORMAT_VERSION"
    );
    bytes
}

const UNIT: u32 = 512;

/// Compares a batch with its file, decodes it, and encodes it again.
fn batch(name: &str, title: &str, header: BatchHeader, frames: &[Made]) -> BatchHeader {
    let built = sealed(header, &payload(frames), frames.len() as u32, UNIT);
    let bytes = golden(name, title, &batch_parts(&built, frames));
    assert_eq!(bytes.len() % UNIT as usize, 0);

    let got = BatchHeader::decode(&bytes).expect(name);
    let meant = BatchHeader {
        payload_len: payload(frames).len() as u32,
        frames: frames.len() as u32,
        payload_crc: crc32c(&payload(frames)),
        crc: got.crc,
        ..header
    };
    assert_eq!(got, meant);
    assert_eq!(got.check_link(&expected(&header)), Ok(()));
    let end = BATCH_HEADER_LEN + got.payload_len as usize;
    let body = &bytes[BATCH_HEADER_LEN..end];
    assert_eq!(got.check_payload(body), Ok(()));
    let read: Vec<_> = Frames::new(body, got.lsn.plus(BATCH_HEADER_LEN as u64))
        .map(|f| f.map(|f| (f.header, f.data.to_vec())).expect(name))
        .collect();
    assert_eq!(read, frames);

    let mut again = vec![0xaa; bytes.len()];
    again[BATCH_HEADER_LEN..end].copy_from_slice(&payload(&read));
    let mut reused = BatchHeader {
        crc: 0,
        payload_crc: payload_crc(0, &payload(&read)),
        ..got
    };
    assert_eq!(seal(&mut again, &mut reused), got.crc);
    assert_eq!(reused, got);
    assert!(again == bytes, "{name}: encodes to other bytes");
    got
}

#[test]
fn batches() {
    let two = [frame(b"first record", "fl"), frame(b"", "fl")];
    batch(
        "data",
        "a data batch of two records, the second empty",
        data_header(),
        &two,
    );

    let whole: Vec<u8> = (0..500u32).map(|i| (i % 251) as u8).collect();
    let head = [frame(b"before", "fl"), frame(&whole[..360], "f")];
    let tail = [frame(&whole[360..], "l"), frame(b"after", "fl")];
    let one = batch(
        "spanning-1",
        "a record of 500 bytes begins here",
        data_header(),
        &head,
    );
    let next = BatchHeader {
        lsn: one.end(UNIT),
        void_from: one.end(UNIT),
        prev_crc: one.crc,
        ..data_header()
    };
    let two = batch("spanning-2", "and ends here", next, &tail);
    // The record is complete only with both batches.
    let mut sequence = Sequence::default();
    let mut take = |h: &BatchHeader, frames: &[_]| {
        let base = h.lsn.plus(BATCH_HEADER_LEN as u64);
        sequence
            .push_all(&payload(frames), base, h.frames)
            .expect("fits");
        sequence.open_from()
    };
    let begun = one.lsn.plus((BATCH_HEADER_LEN + 16) as u64);
    assert_eq!(take(&one, &head), Some(begun));
    assert_eq!(take(&two, &tail), None);

    let joined = [
        frame(b"debit", "fjl"),
        frame(b"credit", "fjlo"),
        frame(b"note", "flo"),
    ];
    batch(
        "joined",
        "an atomic append of three records",
        data_header(),
        &joined,
    );
    batch("stamp", "a stamp batch", stamp_header(), &[]);
    let voiding = BatchHeader {
        void_from: Lsn(7000),
        ..epoch_header()
    };
    batch(
        "epoch",
        "an epoch batch that voids an append that was not ended",
        voiding,
        &[],
    );
    batch("void", "a batch of truncate_back", void_header(), &[]);
}

#[test]
fn segment_header() {
    let built = segment().encode();
    let title = "a segment header; zeroes up to the first batch follow";
    let bytes = golden("segment", title, &by_table("segment-header", &built));
    let got = SegmentHeader::decode(&bytes).expect("segment");
    assert_eq!(got, segment());
    assert_eq!(got.encode()[..], bytes[..]);
}

#[test]
fn control_slot() {
    let built = control().encode();
    let bytes = golden(
        "control",
        "a control slot",
        &by_table("control-slot", &built),
    );
    let got = Control::decode(&bytes).expect("control");
    assert_eq!(got, control());
    assert_eq!(got.encode()[..], bytes[..]);
}

#[test]
fn meta_slot() {
    let built = meta().encode();
    let bytes = golden("meta", "a metadata slot", &by_table("meta-slot", &built));
    let got = Meta::decode(&bytes, LOG).expect("meta");
    assert_eq!(got, meta());
    assert_eq!(got.encode()[..], bytes[..]);
}
