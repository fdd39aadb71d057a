//! Reading.

use super::{Bench, expect, expect_kind, finish};
use logforce_device::{AlignedBuf, Barrier, ReadSource};
use std::io::ErrorKind;

pub fn at_the_end(t: &Bench) {
    let unit = t.unit();
    let file = t.create("a", false);
    let mut buf = AlignedBuf::zeroed(4 * unit, unit);
    for &source in t.sources() {
        let n = expect(file.read_at(0, &mut buf, source), "read of an empty file");
        assert_eq!(n, 0, "an empty file has nothing to read from {source:?}");
    }
    expect(finish(&*file, t.write(0, 3, 1, false)).result, "write");
    for &source in t.sources() {
        let mut read = |unit_number: usize| {
            let offset = (unit_number * unit) as u64;
            expect(file.read_at(offset, &mut buf, source), "read at the end")
        };
        assert_eq!(
            read(0),
            3 * unit,
            "a read over the end is short ({source:?})"
        );
        assert_eq!(read(2), unit, "a read over the end is short ({source:?})");
        assert_eq!(read(3), 0, "a read at the end gives nothing ({source:?})");
        assert_eq!(
            read(9),
            0,
            "a read behind the end gives nothing ({source:?})"
        );
        let n = expect(file.read_at(0, &mut [], source), "read of zero bytes");
        assert_eq!(n, 0, "a read of zero bytes gives nothing ({source:?})");
    }
    // Cached reads may start and end anywhere.
    let mut some = [0; 7];
    let offset = unit as u64 - 3;
    let n = expect(
        file.read_at(offset, &mut some, ReadSource::Cache),
        "unaligned cached read",
    );
    assert_eq!(
        (n, some),
        (7, [1, 1, 1, 2, 2, 2, 2]),
        "an unaligned cached read"
    );
    t.remove("a");
}

pub fn from_the_medium(t: &Bench) {
    let unit = t.unit();
    let file = t.create("a", false);
    expect(finish(&*file, t.write(0, 2, 1, false)).result, "write");
    let mut buf = AlignedBuf::zeroed(2 * unit, unit);
    if !t.facts.reads_medium() {
        let read = file.read_at(0, &mut buf, ReadSource::Medium);
        expect_kind(
            read,
            ErrorKind::Unsupported,
            "reading past the cache where that cannot be",
        );
    } else {
        let both = [1, 2];
        assert_eq!(
            t.fills(&*file, ReadSource::Medium),
            both,
            "a read past the cache is coherent"
        );
        for (what, result) in [
            ("offset", file.read_at(1, &mut buf, ReadSource::Medium)),
            (
                "length",
                file.read_at(0, &mut buf[..unit - 1], ReadSource::Medium),
            ),
            (
                "address",
                file.read_at(0, &mut buf[8..8 + unit], ReadSource::Medium),
            ),
        ] {
            assert!(
                result.is_err(),
                "a read from the medium with a misaligned {what} is refused"
            );
        }
    }
    let found = file.next_data(0).map(|at| at == Some(0));
    assert!(
        matches!(found, Ok(true)),
        "data at the beginning: {found:?}"
    );
    // Hints for any range change nothing.
    file.begin_write_back(0..unit as u64);
    file.begin_write_back(unit as u64..u64::MAX);
    expect(file.barrier(Barrier::Full), "barrier");
    file.drop_cache(0..2 * unit as u64);
    file.drop_cache(unit as u64..u64::MAX);
    let cached = t.fills(&*file, ReadSource::Cache);
    assert_eq!(
        cached,
        [1, 2],
        "after drop_cache the bytes come from the device"
    );
    t.remove("a");
}
