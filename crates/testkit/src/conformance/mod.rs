//! Conformance suite: the behaviours that every backend must have, checked on a live directory.
//!
//! It checks only behaviour without crashes. The simulator and the real power cuts test the state after a
//! crash.

mod names;
mod reads;
mod writes;

use logforce_device::{
    AlignedBuf, Completion, Directory, Facts, File, OpenFile, ReadSource, System, Write,
};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Checks everything in `dir`, which must not exist yet (its parent must) or be empty. Two empty
/// directories are left in it.
///
/// # Panics
/// If the backend breaks the contract. The message names the operation and the expected result.
pub fn check(system: &dyn System, dir: &Path) {
    let directory = names::directories(system, dir);
    let t = Bench {
        facts: expect(directory.facts_for_writing(), "facts"),
        dir: directory,
    };
    names::entries(&t);
    names::opening(&t);
    names::refused(&t);
    names::renaming(&t);
    names::locking(&t);
    names::identities(&t);
    reads::at_the_end(&t);
    reads::from_the_medium(&t);
    for direct in [false, true] {
        if direct && t.facts.direct.is_none() {
            writes::direct_is_refused(&t);
            continue;
        }
        for through in [false, true] {
            writes::read_back(&t, direct, through);
            writes::out_of_order(&t, direct, through);
            if direct {
                writes::by_a_queue(&t, through);
            }
        }
        writes::overwriting(&t, direct);
        writes::reserving(&t, direct);
        writes::zeroing(&t, direct);
    }
    if t.facts.direct.is_some() {
        writes::misaligned(&t);
    }
    writes::refused_on_a_reader(&t);
    let left = t.entries();
    assert!(
        left.is_empty(),
        "the suite removes its files, but {left:?} are left"
    );
}

/// Directory and properties that the checks use.
struct Bench {
    dir: Arc<dyn Directory>,
    facts: Facts,
}

impl Bench {
    fn unit(&self) -> usize {
        self.facts.write_unit() as usize
    }

    /// Returns names and sizes, sorted.
    fn entries(&self) -> Vec<(String, u64)> {
        let entries = expect(self.dir.entries(), "entries");
        let mut entries: Vec<_> = entries.into_iter().map(|e| (e.name, e.len)).collect();
        entries.sort();
        entries
    }

    fn create(&self, name: &str, direct: bool) -> Arc<dyn File> {
        let how = OpenFile {
            direct,
            ..OpenFile::CREATE
        };
        expect(
            self.dir.open(name, how),
            &format!("create {name} (direct: {direct})"),
        )
    }

    fn remove(&self, name: &str) {
        expect(self.dir.remove(name), &format!("remove {name}"));
    }

    /// Returns a write of `units` write units, whose `i`-th byte is `fill + i / unit`.
    fn write(&self, at: usize, units: usize, fill: u8, through: bool) -> Write {
        let unit = self.unit();
        let mut buf = AlignedBuf::zeroed(units * unit, unit);
        for (i, part) in buf.chunks_mut(unit).enumerate() {
            part.fill(fill + i as u8);
        }
        Write {
            offset: (at * unit) as u64,
            range: 0..buf.len(),
            buf,
            through,
        }
    }

    /// Reads the file, and returns the first byte of each write unit. Panics if a unit is not uniform.
    fn fills(&self, file: &dyn File, source: ReadSource) -> Vec<u8> {
        let unit = self.unit();
        let len = expect(file.len(), "len") as usize;
        let mut buf = AlignedBuf::zeroed(len.next_multiple_of(unit), unit);
        let n = expect(file.read_at(0, &mut buf, source), "read the whole file");
        assert_eq!(
            n, len,
            "reading the whole file from {source:?} must return all of it"
        );
        let uniform = |part: &[u8]| {
            assert!(
                part.iter().all(|b| *b == part[0]),
                "a unit contains bytes of another one ({source:?})"
            );
            part[0]
        };
        buf[..len].chunks(unit).map(uniform).collect()
    }

    /// Returns the sources of reads that are available here.
    fn sources(&self) -> &[ReadSource] {
        let all = &[ReadSource::Cache, ReadSource::Medium];
        if self.facts.reads_medium() {
            all
        } else {
            &all[..1]
        }
    }
}

fn finish(file: &dyn File, write: Write) -> Completion {
    let ticket = file.submit(write);
    file.complete(ticket)
}

fn expect<T>(result: io::Result<T>, what: &str) -> T {
    result.unwrap_or_else(|e| panic!("{what} should succeed, but: {e} ({:?})", e.kind()))
}

fn expect_kind<T>(result: io::Result<T>, kind: io::ErrorKind, what: &str) {
    match result {
        Ok(_) => panic!("{what} should fail with {kind:?}, but succeeds"),
        Err(e) => assert_eq!(e.kind(), kind, "{what} fails with the wrong kind: {e}"),
    }
}
