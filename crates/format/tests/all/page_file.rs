//! Bytes of a page file: compared with `docs/page-format.md`, and decoded from arbitrary bytes.

use crate::support::{crc32c, table_of};
use logforce_format::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const PAGE: &str = "page-format.md";

fn logged() -> PageFileHeader {
    PageFileHeader {
        id: PageFileId([0x11; 16]),
        sequence: 0x0203,
        page_size: 4096,
        checksums: true,
        page_count: 0x0405,
        commit: 0x0607,
        kind: PageFileKind::Logged(LoggedState {
            log_id: LogId([0x22; 16]),
            redo_from: Lsn(0x0809),
        }),
    }
}

fn copy_on_write() -> PageFileHeader {
    PageFileHeader {
        kind: PageFileKind::CopyOnWrite(CopyOnWriteRoot {
            place: Some(0x0a0b),
            crc: 0x0c0d,
            depth: 3,
            places_end: 0x0e0f,
        }),
        ..logged()
    }
}

/// Corrects the checksum of a slot or sector.
fn fix(bytes: &mut [u8], at: usize) {
    bytes[at..at + 4].fill(0);
    let crc = crc32c(bytes);
    bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn constants() {
    let code: BTreeMap<&str, u64> = [
        ("PAGE_FORMAT_VERSION", u64::from(PAGE_FORMAT_VERSION)),
        ("MIN_PAGE_SIZE", u64::from(MIN_PAGE_SIZE)),
        ("MAX_PAGE_SIZE", u64::from(MAX_PAGE_SIZE)),
        ("MAX_PAGES", MAX_PAGES),
        ("PAGE_HEADER_LEN", PAGE_HEADER_LEN as u64),
        ("PAGE_HEADER_OFFSET_0", PAGE_HEADER_OFFSETS[0]),
        ("PAGE_HEADER_OFFSET_1", PAGE_HEADER_OFFSETS[1]),
        ("PAGE_DATA_OFFSET", PAGE_DATA_OFFSET),
        ("MAP_SECTOR_LEN", MAP_SECTOR_LEN as u64),
        ("MAP_SECTOR_ENTRIES", MAP_SECTOR_ENTRIES as u64),
        ("REDO_HEADER_LEN", REDO_HEADER_LEN as u64),
    ]
    .into();
    let rows = table_of(PAGE, "constants");
    let doc: BTreeMap<&str, u64> = rows
        .iter()
        .map(|r| (&r[0][..], r[1].parse().unwrap()))
        .collect();
    assert_eq!(doc, code);
}

#[test]
fn reasons() {
    for (name, code) in [
        ("header-rejects", PageHeaderReject::NAMES),
        ("map-rejects", MapReject::NAMES),
        ("redo-rejects", RedoReject::NAMES),
    ] {
        let rows = table_of(PAGE, name);
        let doc: BTreeSet<&str> = rows.iter().map(|r| &r[0][..]).collect();
        assert_eq!(doc, code.iter().copied().collect(), "{name}");
    }
}

/// Tests that each field of the header lies where the page says, and nothing else is there.
#[test]
fn header_fields() {
    let b = logged().encode();
    let number = |b: &[u8], at: usize, len: usize| {
        let mut bytes = [0; 8];
        bytes[..len].copy_from_slice(&b[at..at + len]);
        u64::from_le_bytes(bytes)
    };
    assert_eq!(&b[..6], b"LFPAGE");
    assert_eq!(number(&b, 6, 2), u64::from(PAGE_FORMAT_VERSION));
    assert_eq!((b[12], b[13]), (2, 1));
    assert_eq!(b[16..32], [0x11; 16]);
    assert_eq!(number(&b, 32, 8), 0x0203);
    assert_eq!(number(&b, 40, 4), 4096);
    assert_eq!(number(&b, 48, 8), 0x0405);
    assert_eq!(number(&b, 56, 8), 0x0607);
    assert_eq!(b[64..80], [0x22; 16]);
    assert_eq!(number(&b, 80, 8), 0x0809);
    assert!(b[88..].iter().all(|x| *x == 0));
    let c = copy_on_write().encode();
    assert_eq!(c[12], 1);
    assert_eq!(number(&c, 64, 8), 0x0a0b);
    assert_eq!(number(&c, 72, 4), 0x0c0d);
    assert_eq!(number(&c, 76, 4), 3);
    assert_eq!(number(&c, 80, 8), 0x0e0f);
    // The table of that page has no hole and no overlap.
    let mut end = 0;
    for row in table_of(PAGE, "header") {
        let (offset, len): (usize, usize) = (row[0].parse().unwrap(), row[1].parse().unwrap());
        assert_eq!(offset, end, "{row:?}");
        end = offset + len;
    }
    assert_eq!(end, PAGE_HEADER_LEN);
    for header in [logged(), copy_on_write()] {
        assert_eq!(PageFileHeader::decode(&header.encode()), Ok(header));
    }
}

#[test]
fn headers_are_rejected_for_each_reason() {
    let rejected = |at: usize, value: u8| {
        let mut b = copy_on_write().encode();
        b[at] = value;
        fix(&mut b, 8);
        PageFileHeader::decode(&b).unwrap_err().name()
    };
    assert_eq!(rejected(0, b'X'), "Magic");
    assert_eq!(
        PageFileHeader::decode(&[0; 100]),
        Err(PageHeaderReject::Magic)
    );
    assert_eq!(rejected(6, 9), "Version");
    for zero in [14, 15, 44, 47, 88, 4095] {
        assert_eq!(rejected(zero, 1), "Reserved", "{zero}");
    }
    assert_eq!(rejected(13, 2), "Reserved");
    for (at, value) in [
        (12, 0),
        (12, 3),
        (40, 1),
        (42, 2),
        (76, 17),
        (76, 0),
        (81, 0),
        (39, 0x80),
        (54, 1),
        (63, 0x80),
    ] {
        assert_eq!(rejected(at, value), "Contradiction", "{at}");
    }
    // Every single bit counts.
    let good = logged().encode();
    for bit in 0..good.len() * 8 {
        let mut b = good;
        b[bit / 8] ^= 1 << (bit % 8);
        assert!(PageFileHeader::decode(&b).is_err(), "bit {bit}");
    }
}

#[test]
fn the_newer_whole_slot_counts() {
    let newer = PageFileHeader {
        sequence: 0x0204,
        ..logged()
    };
    let torn = Err(PageHeaderReject::Checksum);
    assert_eq!(
        newest_page_header([Ok(logged()), Ok(newer)]),
        Ok((1, newer))
    );
    assert_eq!(
        newest_page_header([Ok(newer), Ok(logged())]),
        Ok((0, newer))
    );
    assert_eq!(newest_page_header([torn, Ok(logged())]), Ok((1, logged())));
    assert!(newest_page_header([torn, torn]).is_err());
}

#[test]
fn sectors_of_the_map() {
    let mut sector = MapSector::default();
    sector.entries[4] = MapEntry::of(63 * 7 + 4, b"page");
    sector.entries[5] = MapEntry::Dropped;
    let b = sector.encode(7);
    assert_eq!(b[4..8], 8u32.to_le_bytes());
    assert_eq!(b[8 + 8 * 4..12 + 8 * 4], 1u32.to_le_bytes());
    let crc = page_crc(63 * 7 + 4, b"page");
    assert_eq!(crc, crc32c(&[&445u64.to_le_bytes()[..], b"page"].concat()));
    assert_eq!(b[12 + 8 * 4..16 + 8 * 4], crc.to_le_bytes());
    assert_eq!(b[8 + 8 * 5..16 + 8 * 5], 2u64.to_le_bytes());
    assert_eq!(MapSector::decode(&b, 7), Ok(sector));
    assert_eq!(MapSector::decode(&b, 8), Err(MapReject::Misplaced(8)));
    assert_eq!(
        MapSector::decode(&[0; MAP_SECTOR_LEN], 7),
        Ok(MapSector::default())
    );
    for bit in 0..b.len() * 8 {
        let mut rotten = b;
        rotten[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(
            MapSector::decode(&rotten, 7),
            Err(MapReject::Checksum),
            "bit {bit}"
        );
    }
    // These set an unknown kind, and checksums of pages without one.
    for (at, byte) in [(8, 3), (12, 1), (12 + 8 * 5, 1)] {
        let mut odd = b;
        odd[at] = byte;
        fix(&mut odd, 0);
        assert_eq!(MapSector::decode(&odd, 7), Err(MapReject::Entry), "{at}");
    }
}

#[test]
fn redo_records() {
    let mut redo = RedoWriter::new(
        Resize {
            drop_from: 7,
            at_least: 9,
        },
        0,
    );
    redo.image(1, &[5; 512]);
    redo.ranges(2, &[6; 512], &[3..5, 510..512]);
    redo.discard(4);
    let record = redo.finish();
    assert_eq!(record.parts().len(), 3);
    let len = record.byte_len();
    let record = record.parts().concat();
    assert_eq!(record.len(), len);
    let decoded = Redo::decode(&record, 512).unwrap();
    assert_eq!((decoded.resize.drop_from, decoded.resize.at_least), (7, 9));
    assert_eq!(decoded.pages[0], (1, PageChange::Image(&[5; 512])));
    let ranges = vec![(3, &[6, 6][..]), (510, &[6, 6][..])];
    assert_eq!(decoded.pages[1], (2, PageChange::Ranges(ranges)));
    assert_eq!(decoded.pages[2], (4, PageChange::Discard));
    assert_eq!(Redo::decode(&record, 1024), Err(RedoReject::Order));
    for len in 0..record.len() {
        assert_eq!(
            Redo::decode(&record[..len], 512),
            Err(RedoReject::Length),
            "{len}"
        );
    }
    let more = [&record[..], &[0]].concat();
    assert_eq!(Redo::decode(&more, 512), Err(RedoReject::Length));
    let changed = |at: usize, value: u8| {
        let mut b = record.clone();
        b[at] = value;
        Redo::decode(&b, 512).map(|_| ())
    };
    assert_eq!(changed(0, 2), Err(RedoReject::Unknown));
    // The kind of the first change; the length of the last, a discard.
    assert_eq!(changed(REDO_HEADER_LEN + 8, 9), Err(RedoReject::Unknown));
    assert_eq!(changed(record.len() - 4, 1), Err(RedoReject::Reserved));
    // The first page comes after the second.
    assert_eq!(changed(REDO_HEADER_LEN, 3), Err(RedoReject::Order));
}

#[test]
fn the_number_of_pages_after_a_commit() {
    let resize = |drop_from, at_least| Resize {
        drop_from,
        at_least,
    };
    assert_eq!(Resize::NONE.page_count(10, Some(3)), 10);
    assert_eq!(Resize::NONE.page_count(10, Some(10)), 11);
    assert_eq!(resize(4, 4).page_count(10, None), 4);
    assert_eq!(resize(4, 4).page_count(10, Some(6)), 7);
    assert_eq!(resize(4, 20).page_count(10, None), 20);
    assert_eq!(resize(u64::MAX, 5).page_count(10, None), 10);
}

proptest! {
    #[test]
    fn any_bytes_are_a_redo_record_or_not(bytes in vec(any::<u8>(), 0..600)) {
        let _ = Redo::decode(&bytes, 512);
    }

    #[test]
    fn a_mutated_redo_record_never_leaves_its_page(at in 0usize..620, value: u8) {
        let mut redo = RedoWriter::new(Resize::NONE, 0);
        redo.image(1, &[5; 512]);
        redo.ranges(2, &[6; 512], &[3..5, 510..512]);
        let mut record = redo.finish().parts().concat();
        let at = at % record.len();
        record[at] = value;
        if let Ok(redo) = Redo::decode(&record, 512) {
            for (_, change) in redo.pages {
                if let PageChange::Ranges(ranges) = change {
                    prop_assert!(ranges.iter().all(|(at, b)| *at as usize + b.len() <= 512));
                }
            }
        }
    }
}
