//! Base copies: with the log from its position on, a copy that was made while the file was written is the page
//! file as of any later position.

use crate::common::{PAGE, PATH, disk, interrupted, open, options, page};
use logforce_core::{Import, ImportOptions, LogChunk, OpenMode, ReplicaOptions, Replication};
use logforce_device::{Guarantee, System};
use logforce_format::{Lsn, MAP_SECTOR_LEN, PageFileHeader};
use logforce_pages::{
    BaseReader, BaseWriter, CommitMode, Error, ErrorKind, Inspector, PageFile, Result, Transaction,
};
use logforce_testkit::{Rng, SimRuntime};
use std::collections::BTreeMap;
use std::sync::Arc;

const COPY: &str = "/copy";
const ROUNDS: u64 = 60;

/// Pages after each commit, and the end of the log there.
#[derive(Default)]
struct Model {
    pages: BTreeMap<u64, Vec<u8>>,
    page_count: u64,
    states: Vec<State>,
}

/// Position, number of pages, and pages.
type State = (Lsn, u64, BTreeMap<u64, Vec<u8>>);

struct Run<'a> {
    file: &'a PageFile,
    replica: Replication,
    chunks: Vec<LogChunk>,
    model: Model,
    rng: Rng,
}

impl Run<'_> {
    fn change(&mut self, txn: &mut Transaction) -> Result<()> {
        let (model, rng) = (&mut self.model, &mut self.rng);
        match rng.below(8) {
            0 => {
                let count = rng.below(400);
                txn.set_page_count(count)?;
                model.page_count = count;
                model.pages.retain(|n, _| *n < count);
            }
            1 if model.page_count > 0 => {
                let n = rng.below(model.page_count);
                txn.discard(n)?;
                model.pages.remove(&n);
            }
            2..=4 if model.page_count > 0 => {
                let n = rng.below(model.page_count);
                let (at, byte) = (rng.below(PAGE as u64) as usize, rng.bits() as u8);
                txn.page_mut(n)?[at] = byte;
                model.pages.entry(n).or_insert_with(|| vec![0; PAGE])[at] = byte;
            }
            _ => {
                let at = rng.below(350);
                for n in at..at + 1 + rng.below(6) {
                    let bytes = page(rng.bits());
                    txn.write(n, &bytes)?;
                    model.pages.insert(n, bytes);
                    model.page_count = model.page_count.max(n + 1);
                }
            }
        }
        Ok(())
    }

    /// Commits, and keeps the log and the state at its end.
    fn commits(&mut self, count: u64) {
        for _ in 0..count {
            let mut txn = self.file.begin().unwrap();
            self.change(&mut txn).unwrap();
            txn.commit().unwrap();
            while let Some(chunk) = self.replica.read(64 << 10).unwrap() {
                self.replica.confirm(chunk.to).unwrap();
                self.chunks.push(chunk);
            }
            let end = self.chunks.last().map_or(Lsn::ORIGIN, |c| c.to);
            let model = &mut self.model;
            let state = (end, model.page_count, model.pages.clone());
            model.states.push(state);
            if self.rng.one_in(12) {
                self.file.checkpoint().unwrap();
            }
        }
    }
}

/// A base copy as a replica keeps it.
struct Base {
    header: PageFileHeader,
    parts: Vec<Vec<u8>>,
    redo_from: Lsn,
    first_segment: Lsn,
    end: Lsn,
}

fn read(reader: BaseReader, parts: Vec<Vec<u8>>) -> Base {
    Base {
        header: reader.header(),
        parts,
        redo_from: reader.redo_from(),
        first_segment: reader.first_segment(),
        end: reader.finish().unwrap(),
    }
}

fn restore(
    system: &Arc<dyn System>,
    copy: &str,
    base: &Base,
    chunks: &[LogChunk],
    to: Lsn,
) -> Result<()> {
    let require = Guarantee::Nothing;
    let mut writer = BaseWriter::new(system.clone(), copy, base.header, require)?;
    base.parts.iter().try_for_each(|part| writer.part(part))?;
    let import = ImportOptions::new().front(base.redo_from).until(to);
    let mut log = Import::new(&**system, &writer.log_path()?, import)?;
    for chunk in chunks {
        let skipped = base
            .first_segment
            .since(chunk.from)
            .min(chunk.bytes.len() as u64);
        if chunk.to <= base.first_segment {
            continue;
        }
        let (from, bytes) = match chunk.from < base.first_segment {
            true => (base.first_segment, &chunk.bytes[skipped as usize..]),
            false => (chunk.from, &chunk.bytes[..]),
        };
        log.chunk(from, bytes, &chunk.control, chunk.meta.as_deref())?;
    }
    log.finish()?;
    writer.finish()
}

fn check(system: &Arc<dyn System>, copy: &str, state: &State) {
    let inspector = Inspector::open(system.clone(), copy).unwrap();
    let report = inspector.walk(&mut |_| true).unwrap();
    assert_eq!(report.damages, 0, "{report:?}");
    let options = options(CommitMode::Logged);
    let copy = PageFile::open(&**system, copy, OpenMode::OpenExisting, options).unwrap();
    for round in 0..2 {
        let snapshot = copy.snapshot().unwrap();
        assert_eq!(snapshot.page_count(), state.1);
        let mut buf = vec![0; PAGE];
        for n in 0..state.1 {
            snapshot.read(n, &mut buf).unwrap();
            let expected = state.2.get(&n).cloned().unwrap_or_else(|| vec![0; PAGE]);
            assert_eq!(buf, expected, "page {n} in round {round}");
        }
        copy.checkpoint().unwrap();
    }
    copy.close().unwrap();
}

/// Returns true if nothing of a restore is left. The simulated disk removes no directories.
fn is_gone(system: &Arc<dyn System>) -> bool {
    let dir = system.directory(COPY.as_ref());
    dir.is_err()
        || dir
            .unwrap()
            .entries()
            .unwrap()
            .iter()
            .all(|e| e.name == "log")
}

#[test]
fn a_copy_made_while_the_file_is_written_is_the_file_at_every_later_position() {
    let mut moved = 0;
    for seed in 0..ROUNDS {
        let disk = disk(seed);
        SimRuntime::run(seed, |rt| {
            let system: Arc<dyn System> = disk.system(rt);
            let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
            let mut rng = Rng::new(seed);
            let mut run = Run {
                replica: file.replicate(ReplicaOptions::new()).unwrap(),
                file: &file,
                chunks: Vec::new(),
                model: Model::default(),
                rng: Rng::new(seed ^ 1),
            };
            run.commits(rng.below(150));
            let mut reader = BaseReader::open(system.clone(), PATH).unwrap();
            let mut parts = Vec::new();
            while let Some(part) = reader.part(1).unwrap() {
                parts.push(part);
                run.commits(rng.below(40));
            }
            let base = read(reader, parts);
            run.commits(rng.below(80));
            let front = Inspector::open(system.clone(), PATH).unwrap().summary();
            if front.unwrap().log.unwrap().unwrap().front > base.redo_from {
                moved += 1;
            }
            let states = &run.model.states;
            let later: Vec<_> = states.iter().filter(|s| s.0 >= base.end).collect();
            if !later.is_empty() {
                for n in 0..3 {
                    let copy = &format!("{COPY}-{n}");
                    let state = later[rng.below(later.len() as u64) as usize];
                    restore(&system, copy, &base, &run.chunks, state.0).unwrap();
                    check(&system, copy, state);
                }
            }
            drop(run);
            file.close().unwrap();
        });
    }
    // Otherwise no restored log begins below the front of its chunks.
    assert!(moved > ROUNDS / 3, "{moved} of {ROUNDS}");
}

/// Records are missing then. The copy would stand for a position at which it is not complete.
#[test]
fn a_log_that_is_truncated_while_it_is_read_does_not_end_the_copy_early() {
    for n in 0.. {
        let disk = disk(n);
        let has_acted = SimRuntime::run(n, |rt| {
            let options = options(CommitMode::Logged).checkpoint_distance(1 << 20);
            let file = open(rt, &disk, options).unwrap();
            for round in 0..8 {
                // More than half a segment.
                file.transact(|txn| (0..90).try_for_each(|n| txn.write(n, &page(round * 100 + n))))
                    .unwrap();
            }
            let end = BaseReader::open(disk.system(rt), PATH).unwrap().finish();
            let own = file.clone();
            let act = move || own.checkpoint().unwrap();
            let (system, calls) = interrupted(disk.system(rt), act);
            let reader = BaseReader::open(system, PATH).unwrap();
            calls.act_after(n);
            assert_eq!(reader.finish().unwrap(), end.unwrap(), "call {n}");
            file.close().unwrap();
            calls.has_acted()
        });
        if !has_acted {
            assert!(n > 10, "{n}");
            break;
        }
    }
}

/// The reader finds damage that the log does not mend, and copies nothing of it unnoticed.
#[test]
fn damage_is_named() {
    for lost in ["page", "sector"] {
        let disk = disk(3);
        SimRuntime::run(3, |rt| {
            let system: Arc<dyn System> = disk.system(rt);
            let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
            file.transact(|txn| (0..200).try_for_each(|n| txn.write(n, &page(n + 1))))
                .unwrap();
            file.checkpoint().unwrap();
            let dir = system.directory(PATH.as_ref()).unwrap();
            let (name, offset, len) = match lost {
                "page" => ("pages", (128 << 10) + 70 * PAGE as u64, PAGE),
                _ => ("map", MAP_SECTOR_LEN as u64, MAP_SECTOR_LEN),
            };
            let target = dir.open(name, logforce_device::OpenFile::WRITE).unwrap();
            let buf = logforce_device::AlignedBuf::zeroed(len, 512);
            let ticket = target.submit(logforce_device::Write {
                offset,
                range: 0..len,
                buf,
                through: false,
            });
            target.complete(ticket).result.unwrap();
            let mut reader = BaseReader::open(system.clone(), PATH).unwrap();
            while reader.part(1 << 20).unwrap().is_some() {}
            let error = reader.finish().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
            file.close().unwrap();
        });
    }
}

#[test]
fn parts_of_something_else_are_refused_and_nothing_stays() {
    let disk = disk(5);
    SimRuntime::run(5, |rt| {
        let system: Arc<dyn System> = disk.system(rt);
        let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
        file.transact(|txn| (0..200).try_for_each(|n| txn.write(n, &page(n + 1))))
            .unwrap();
        file.checkpoint().unwrap();
        let mut reader = BaseReader::open(system.clone(), PATH).unwrap();
        let mut parts = Vec::new();
        while let Some(part) = reader.part(1).unwrap() {
            parts.push(part);
        }
        assert_eq!(parts.len(), 4);
        let begin = || BaseWriter::new(system.clone(), COPY, reader.header(), Guarantee::Nothing);
        let mut wrong = vec![
            vec![parts[1].clone(), parts[0].clone()],
            vec![parts[0].clone(), parts[0].clone()],
            vec![parts[0][..parts[0].len() - 1].to_vec()],
            vec![[&parts[0][..], &[0; 7][..]].concat()],
        ];
        for at in [0, 8, 600] {
            let mut flipped = parts[0].clone();
            flipped[at] ^= 1;
            wrong.push(vec![flipped]);
        }
        for (n, parts) in wrong.iter().enumerate() {
            let mut writer = begin().unwrap();
            let written = parts.iter().try_for_each(|part| writer.part(part));
            match n {
                // A byte of a page: the checksum of the page finds it after the restore.
                6 => written.unwrap(),
                _ => assert_eq!(written.unwrap_err().kind(), ErrorKind::Damaged, "{n}"),
            }
            drop(writer);
            assert!(is_gone(&system), "{n}");
        }
        // Without its log a copy is not a page file.
        let writer = begin().unwrap();
        assert!(matches!(writer.finish(), Err(Error::ForeignLog { .. })));
        assert!(is_gone(&system));
        file.close().unwrap();
    });
}

#[test]
fn a_copy_on_write_file_has_no_base_copy() {
    let disk = disk(6);
    SimRuntime::run(6, |rt| {
        let file = open(rt, &disk, options(CommitMode::CopyOnWrite)).unwrap();
        let refused = BaseReader::open(disk.system(rt), PATH).unwrap_err();
        assert!(matches!(refused, Error::OtherOption { .. }), "{refused}");
        let refused = file.replicate(ReplicaOptions::new()).unwrap_err();
        assert!(matches!(refused, Error::OtherOption { .. }), "{refused}");
        file.close().unwrap();
    });
}
