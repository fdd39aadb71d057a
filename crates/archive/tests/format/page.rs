//! The page `docs/archive-format.md` and the code agree.

use crate::samples::*;
use logforce::Lsn;
use logforce_archive::format::*;
use logforce_archive::key::{Epoch, Key};
use logforce_archive::object::{Hint, Nonce, Object, PAGE_HEADER_LEN};
use std::collections::BTreeMap;
use std::path::Path;

/// Returns the rows of the table below the mark `name`, without its heading.
fn table(name: &str) -> Vec<Vec<String>> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/archive-format.md");
    let text = std::fs::read_to_string(page).unwrap();
    let mark = format!("<!-- table: {name} -->");
    let (_, below) = text.split_once(&mark).expect(&mark);
    let rows = below
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with('|'));
    let cells = |row: &str| {
        let cells = row.trim_matches('|').split('|');
        cells
            .map(|cell| cell.trim().trim_matches('`').to_owned())
            .collect()
    };
    rows.skip(2).map(cells).collect()
}

#[test]
fn constants() {
    let code: BTreeMap<&str, u64> = [
        ("ARCHIVE_FORMAT_VERSION", u64::from(ARCHIVE_FORMAT_VERSION)),
        ("HEADER_LEN", HEADER_LEN as u64),
        ("CONTROL_LEN", CONTROL_LEN as u64),
        ("MAX_META_LEN", MAX_META_LEN as u64),
        ("MAX_LOG_LEN", MAX_LOG_LEN),
        ("MAX_POINTS", MAX_POINTS as u64),
        ("MAX_PART_LEN", MAX_PART_LEN),
        ("PAGE_HEADER_LEN", PAGE_HEADER_LEN as u64),
        ("PEEK_LEN", PEEK_LEN),
        ("KEY_LEN", KEY_LEN as u64),
    ]
    .into();
    let rows = table("constants");
    let doc: BTreeMap<&str, u64> = rows
        .iter()
        .map(|row| (&row[0][..], row[1].parse().unwrap()))
        .collect();
    assert_eq!(doc, code);
}

#[test]
fn kinds() {
    let log = chunk(&codec(None), &[0; CONTROL_LEN], &[b"log"]).1;
    let mut code = vec![
        (identity(None).encode()[12], "identity"),
        (log[12], "chunk"),
    ];
    let names = ["seal", "floor", "mark", "pruned", "hint", "base"];
    for (object, name) in notes("").iter().zip(names) {
        code.push((codec(None).encode(object).unwrap()[12], name));
    }
    code.push((5, "segment"));
    code.push((part(&codec(None), b"pages").2[12], "part"));
    code.sort_unstable();
    let rows = table("kinds");
    let doc: Vec<(u8, &str)> = rows
        .iter()
        .map(|row| (row[0].parse().unwrap(), &row[1][..]))
        .collect();
    assert_eq!(doc, code);
}

/// Tests that each field of the header lies where the page says, without a hole.
#[test]
fn header() {
    let (_, b) = chunk(&codec(None), &[0; CONTROL_LEN], &[b"log"]);
    let number = |at: usize, len: usize| {
        let mut bytes = [0; 8];
        bytes[..len].copy_from_slice(&b[at..at + len]);
        u64::from_le_bytes(bytes)
    };
    assert_eq!(&b[..6], b"LFARCH");
    assert_eq!(number(6, 2), u64::from(ARCHIVE_FORMAT_VERSION));
    assert_eq!((b[12], b[13]), (2, 1));
    assert_eq!(b[16..32], LOG.0);
    assert_eq!((number(32, 8), number(40, 8)), (7, 8));
    assert_eq!((number(48, 8), number(56, 8)), (0x22, 0));
    assert_eq!((number(64, 8), number(72, 8)), (0x0304, 0x0307));
    assert_eq!((number(80, 8), number(88, 8)), (0x0102, 0x0506));
    assert_eq!(number(144, 8), 0x0708);
    let prefix = CONTROL_LEN + 4 + "of the owner".len() + 4 + 2 * 16;
    assert_eq!(number(96, 8), (prefix + 3) as u64);
    assert_eq!(number(104, 8), (b.len() - HEADER_LEN) as u64);
    assert_eq!(number(112, 4), u64::from(crc32c::crc32c(&b[HEADER_LEN..])));
    let mut end = 0;
    for row in table("header") {
        let (offset, len): (usize, usize) = (row[0].parse().unwrap(), row[1].parse().unwrap());
        assert_eq!(offset, end, "{row:?}");
        end = offset + len;
    }
    assert_eq!(end, HEADER_LEN);
}

/// Identity and hint that another program made after that page, with a key of 32 bytes of 1.
const IDENTITY: &str = "4c46415243480100b46fe00f010000001111111111111111111111111111111100000000000000000000000000000000\
    000000000000000000000000000000000002000000000000000200000000000000000000000000000500000000000000\
    310000000000000031000000000000004bb581db00000000000000000000000000000000000000000000000000000000\
    0000000000000000000000000000000001000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e\
    1f98392207da9d136bdd1710e6b3304655";
const HINT: &str = "4c464152434801002c4ec64e080200001111111111111111111111111111111103000000000000000000000000000000\
    050000000000000000000000000000000010000000000000001000000000000000000000000000000000000000000000\
    05000000000000001500000000000000c790490e000000006465666768696a6b6c6d6e6f707172737475767778797a7b\
    00000000000000000000000000000000d4a9994368857fa526ef1519a34af3bffead7c7f49";

#[test]
fn objects_of_another_program_are_read() {
    let bytes = |digits: &str| -> Vec<u8> {
        let pairs = digits.as_bytes().chunks(2);
        let pairs = pairs.map(|pair| std::str::from_utf8(pair).unwrap());
        pairs
            .map(|pair| u8::from_str_radix(pair, 16).unwrap())
            .collect()
    };
    let identity = Identity::decode(&bytes(IDENTITY)).unwrap();
    assert_eq!((identity.start, identity.time), (Lsn(512), 5));
    let codec = Codec::new(&identity, Some(&key(1))).unwrap();
    let hint = codec.peek(&Key::Hint, bytes(HINT).into());
    let expected = Hint {
        epoch: Epoch(3),
        nonce: Nonce(5),
        owner: "owner".to_owned(),
        first: Lsn(4096),
    };
    assert_eq!(hint, Ok(Object::Hint(expected)));
}
