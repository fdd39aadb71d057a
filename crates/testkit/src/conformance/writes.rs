//! Writing, barriers, reserving, zeroing.

use super::{Bench, expect, expect_kind, finish};
use logforce_device::{AlignedBuf, Barrier, OpenFile, ReadSource, Write, WriteQueue};
use std::collections::BTreeMap;
use std::io::ErrorKind;

pub fn read_back(t: &Bench, direct: bool, through: bool) {
    let how = format!("direct: {direct}, through: {through}");
    let file = t.create("a", direct);
    let write = t.write(0, 2, 1, through);
    let (address, len) = (write.buf.as_ptr(), write.buf.len());
    let done = finish(&*file, write);
    expect(done.result, &format!("write ({how})"));
    assert_eq!(
        (done.buf.as_ptr(), done.buf.len()),
        (address, len),
        "the memory comes back"
    );
    // A part of a buffer, leaving a hole before it.
    let mut write = t.write(4, 3, 10, through);
    write.range = t.unit()..2 * t.unit();
    expect(
        finish(&*file, write).result,
        &format!("write of a part ({how})"),
    );
    for &source in t.sources() {
        assert_eq!(
            t.fills(&*file, source),
            [1, 2, 0, 0, 11],
            "{source:?} ({how})"
        );
    }
    for barrier in [Barrier::Data, Barrier::Full] {
        expect(
            file.barrier(barrier),
            &format!("barrier {barrier:?} ({how})"),
        );
        for &source in t.sources() {
            assert_eq!(
                t.fills(&*file, source),
                [1, 2, 0, 0, 11],
                "{source:?} ({how})"
            );
        }
    }
    let mut write = t.write(0, 1, 9, through);
    write.range = 0..0;
    expect(
        finish(&*file, write).result,
        &format!("write of zero bytes ({how})"),
    );
    assert_eq!(
        t.fills(&*file, ReadSource::Cache)[0],
        1,
        "a write of zero bytes changes nothing"
    );
    t.remove("a");
}

/// A queue accepts more writes than its depth, valid and invalid ones, and completes each once.
pub fn by_a_queue(t: &Bench, through: bool) {
    const WRITES: usize = 40;
    let file = t.create("a", true);
    let Some(mut queue) = file.clone().write_queue(8) else {
        return t.remove("a");
    };
    assert!(queue.complete().is_none(), "nothing was written");
    let mut waiting = BTreeMap::new();
    let end = |queue: &mut Box<dyn WriteQueue>, waiting: &mut BTreeMap<u64, (u8, bool)>| {
        let (number, done) = queue.complete().expect("some are in flight");
        let (fill, is_good) = waiting.remove(&number).expect("each ends once");
        assert_eq!(done.buf[0], fill, "each brings its own memory back");
        match is_good {
            true => expect(done.result, "a write of a queue"),
            false => expect_kind(done.result, ErrorKind::InvalidInput, "a misaligned write"),
        }
    };
    for i in 0..WRITES {
        let fill = 1 + 2 * i as u8;
        waiting.insert(queue.submit(t.write(2 * i, 2, fill, through)), (fill, true));
        if i % 8 == 3 {
            let mut bad = t.write(2 * i, 1, 200, through);
            bad.offset += 1;
            waiting.insert(queue.submit(bad), (200, false));
        }
        if i % 16 == 5 {
            end(&mut queue, &mut waiting);
        }
    }
    while !waiting.is_empty() {
        end(&mut queue, &mut waiting);
    }
    assert!(queue.complete().is_none(), "all have ended");
    let wanted: Vec<u8> = (1..=2 * WRITES as u8).collect();
    for &source in t.sources() {
        assert_eq!(
            t.fills(&*file, source),
            wanted,
            "{source:?} (through: {through})"
        );
    }
    // Dropping the queue with writes in flight waits for their end.
    for i in 0..4 {
        queue.submit(t.write(2 * i, 2, 100, through));
    }
    drop(queue);
    expect(
        finish(&*file, t.write(0, 1, 7, through)).result,
        "a write after a queue",
    );
    assert_eq!(t.fills(&*file, ReadSource::Cache)[0], 7);
    t.remove("a");
}

/// Several writes in flight can be completed in another order, while another file is written.
pub fn out_of_order(t: &Bench, direct: bool, through: bool) {
    let (file, other) = (t.create("a", direct), t.create("b", direct));
    let mut tickets: Vec<_> = (0..8)
        .map(|i| {
            (
                i,
                file.submit(t.write(2 * i, 2, 10 * (i as u8 + 1), through)),
            )
        })
        .collect();
    let others = other.submit(t.write(0, 1, 200, through));
    tickets.swap(0, 5);
    tickets.swap(2, 7);
    for (i, ticket) in tickets.into_iter().rev() {
        let done = file.complete(ticket);
        expect(done.result, "one of several writes in flight");
        assert_eq!(
            done.buf[0],
            10 * (i as u8 + 1),
            "each ticket brings its own memory back"
        );
    }
    expect(
        other.complete(others).result,
        "a write to another file meanwhile",
    );
    expect(file.barrier(Barrier::Data), "barrier after several writes");
    let wanted: Vec<u8> = (1..=8).flat_map(|i| [10 * i, 10 * i + 1]).collect();
    for &source in t.sources() {
        assert_eq!(
            t.fills(&*file, source),
            wanted,
            "{source:?} after several writes in flight"
        );
        assert_eq!(
            t.fills(&*other, source),
            [200],
            "{source:?} of the other file"
        );
    }
    t.remove("a");
    t.remove("b");
}

pub fn overwriting(t: &Bench, direct: bool) {
    // Two handles write to one file (cached, direct and by write-through) and both see all writes.
    let first = t.create("a", direct);
    expect(finish(&*first, t.write(0, 4, 1, false)).result, "write");
    let second = expect(t.dir.open("a", OpenFile::WRITE), "second handle");
    expect(
        finish(&*second, t.write(1, 1, 50, false)).result,
        "buffered overwrite",
    );
    expect(
        finish(&*first, t.write(2, 1, 60, true)).result,
        "through overwrite",
    );
    expect(
        finish(&*second, t.write(3, 1, 70, true)).result,
        "buffered through overwrite",
    );
    expect(
        finish(&*first, t.write(3, 1, 80, false)).result,
        "overwrite of the same",
    );
    for file in [&first, &second] {
        for &source in t.sources() {
            assert_eq!(
                t.fills(&**file, source),
                [1, 50, 60, 80],
                "{source:?} (direct: {direct})"
            );
        }
    }
    // Buffered writes may start and end anywhere.
    let mut odd = AlignedBuf::zeroed(10, 8);
    odd.fill(99);
    let offset = t.unit() as u64 - 3;
    let odd = Write {
        offset,
        range: 2..8,
        buf: odd,
        through: false,
    };
    expect(finish(&*second, odd).result, "unaligned buffered write");
    let mut seen = [0; 8];
    expect(
        second.read_at(offset - 1, &mut seen, ReadSource::Cache),
        "read",
    );
    assert_eq!(
        seen,
        [1, 99, 99, 99, 99, 99, 99, 50],
        "an unaligned buffered write"
    );
    expect(second.barrier(Barrier::Full), "barrier");
    t.remove("a");
}

/// Zeroes by the device, where the file offers them: old bytes are gone, and writes go on.
pub fn zeroing(t: &Bench, direct: bool) {
    let unit = t.unit() as u64;
    let file = t.create("a", direct);
    expect(finish(&*file, t.write(0, 2, 5, true)).result, "write");
    let wanted = match expect(file.write_zeroes(unit..4 * unit), "zeroes by the device") {
        true => vec![5, 0, 0, 0],
        false => vec![5, 6],
    };
    for &source in t.sources() {
        assert_eq!(t.fills(&*file, source), wanted, "{source:?}");
    }
    expect(finish(&*file, t.write(1, 1, 9, true)).result, "write again");
    expect(file.barrier(Barrier::Full), "barrier");
    for &source in t.sources() {
        assert_eq!(t.fills(&*file, source)[..2], [5, 9], "{source:?}");
    }
    t.remove("a");
}

pub fn reserving(t: &Bench, direct: bool) {
    let unit = t.unit() as u64;
    let file = t.create("a", direct);
    expect(file.reserve(8 * unit), "reserve");
    assert_eq!(
        expect(file.len(), "len"),
        8 * unit,
        "reserve grows the file"
    );
    for &source in t.sources() {
        assert_eq!(
            t.fills(&*file, source),
            [0; 8],
            "reserved bytes are zero ({source:?})"
        );
    }
    expect(
        finish(&*file, t.write(2, 1, 5, true)).result,
        "write into what is reserved",
    );
    expect(file.reserve(4 * unit), "reserve of less");
    assert_eq!(expect(file.len(), "len"), 8 * unit, "reserve never shrinks");
    expect(file.reserve(9 * unit), "reserve of more");
    expect(file.barrier(Barrier::Data), "barrier");
    for &source in t.sources() {
        let wanted = [0, 0, 5, 0, 0, 0, 0, 0, 0];
        assert_eq!(
            t.fills(&*file, source),
            wanted,
            "reserve keeps what is there ({source:?})"
        );
    }
    t.remove("a");
}

pub fn misaligned(t: &Bench) {
    let unit = t.unit();
    let file = t.create("a", true);
    expect(
        finish(&*file, t.write(0, 2, 1, false)).result,
        "direct write",
    );
    for (what, offset, range) in [
        ("offset", 1, 0..unit),
        ("offset", unit as u64 + 512 - 1, 0..unit),
        ("length", 0, 0..unit - 1),
        ("start in memory", 0, 8..8 + unit),
    ] {
        let buf = AlignedBuf::zeroed(2 * unit, unit);
        let done = finish(
            &*file,
            Write {
                offset,
                range,
                buf,
                through: false,
            },
        );
        let text = format!("a direct write with a misaligned {what}");
        expect_kind(done.result, ErrorKind::InvalidInput, &text);
        assert_eq!(
            done.buf.len(),
            2 * unit,
            "the memory comes back from a refused write"
        );
    }
    assert_eq!(
        t.fills(&*file, ReadSource::Cache),
        [1, 2],
        "refused writes change nothing"
    );
    t.remove("a");
}

pub fn direct_is_refused(t: &Bench) {
    let how = OpenFile {
        direct: true,
        ..OpenFile::CREATE
    };
    let text = "direct opening where facts offer none";
    expect_kind(t.dir.open("a", how), ErrorKind::Unsupported, text);
    assert_eq!(t.entries(), [], "a refused direct opening leaves no file");
}

pub fn refused_on_a_reader(t: &Bench) {
    t.create("a", false);
    let file = expect(t.dir.open("a", OpenFile::READ), "open for reading");
    let done = finish(&*file, t.write(0, 1, 1, false));
    assert!(
        done.result.is_err(),
        "a file opened for reading cannot be written"
    );
    assert!(
        expect(file.is_empty(), "is_empty"),
        "a refused write changes nothing"
    );
    t.remove("a");
}
