//! Tests of reading without opening. It returns the state of the next opening, after any crash, and writes
//! nothing.

use crate::common::{MODES, PAGE, PATH, disk, open, options, page};
use logforce_core::{BackupOptions, Guarantee, OpenMode};
use logforce_pages::{CommitMode, ErrorKind, PageFile, Result, Snapshot};
use logforce_testkit::{Failure, Rng, SimDisk, SimRuntime};

fn read_only(rt: &SimRuntime, disk: &SimDisk) -> Result<Snapshot> {
    Snapshot::read_only(&disk.system(rt), PATH)
}

fn contents(snapshot: &Snapshot) -> (u64, Vec<Vec<u8>>) {
    let pages = 0..snapshot.page_count();
    let pages = pages.map(|n| snapshot.page(n).unwrap().to_vec());
    (snapshot.commit(), pages.collect())
}

fn work(file: &PageFile, rng: &mut Rng) {
    for _ in 0..rng.below(40) {
        let done = file.transact(|txn| {
            match rng.below(8) {
                0 => txn.set_page_count(rng.below(90))?,
                1 if txn.page_count() > 0 => txn.discard(rng.below(txn.page_count()))?,
                2..=4 if txn.page_count() > 0 => {
                    let n = rng.below(txn.page_count());
                    txn.page_mut(n)?[rng.below(PAGE as u64) as usize] = rng.bits() as u8;
                }
                _ => txn.write(rng.below(200), &page(rng.bits()))?,
            }
            Ok(())
        });
        done.unwrap();
        if rng.one_in(9) {
            file.checkpoint().unwrap();
        }
    }
}

#[test]
fn it_shows_what_the_next_opening_shows() {
    let mut in_log = 0;
    for seed in 0..120 {
        let mode = MODES[seed as usize % 2];
        let disk = disk(seed);
        let mut rng = Rng::new(seed);
        SimRuntime::run(seed, |rt| {
            for _ in 0..2 {
                let file = open(rt, &disk, options(mode)).unwrap();
                work(&file, &mut rng);
                file.close().unwrap();
            }
        });
        if seed % 3 == 0 {
            // Repeats it with a log that was not closed.
            SimRuntime::run(seed, |rt| {
                let file = open(rt, &disk, options(mode)).unwrap();
                work(&file, &mut rng);
                disk.cut();
            });
            disk.crash(Failure::Power, None, seed);
        }
        SimRuntime::run(seed, |rt| {
            let before = disk.ops();
            let seen = contents(&read_only(rt, &disk).unwrap());
            assert_eq!(
                disk.ops(),
                before,
                "seed {seed}: the view wrote to the disk"
            );
            let inspected = logforce_pages::Inspector::open(disk.system(rt), PATH).unwrap();
            let redo = inspected.walk(&mut |_| true).unwrap().redo;
            in_log += u64::from(redo.is_some_and(|redo| redo.commits > 0));
            let copied = read_only(rt, &disk).unwrap();
            let system = disk.system(rt);
            copied
                .backup("/copy", BackupOptions::new().require(Guarantee::PowerLoss))
                .unwrap();
            let copy = PageFile::open(&*system, "/copy", OpenMode::OpenExisting, options(mode));
            let copy = copy.unwrap();
            assert!(
                contents(&copy.latest().unwrap()) == seen,
                "seed {seed}: the copy"
            );
            copy.close().unwrap();
            let file = open(rt, &disk, options(mode)).unwrap();
            assert!(contents(&file.latest().unwrap()) == seen, "seed {seed}");
            file.close().unwrap();
        });
    }
    assert!(in_log > 20, "{in_log}");
}

/// Nothing locks the file. A writer's changes must not be taken for the older state, nor for damage.
#[test]
fn a_writer_is_noticed() {
    for mode in MODES {
        let disk = disk(1);
        SimRuntime::run(1, |rt| {
            let write = |file: &PageFile, tag: u64| {
                file.transact(|txn| (0..10).try_for_each(|n| txn.write(n, &page(tag))))
                    .unwrap();
                file.checkpoint().unwrap();
            };
            let file = open(rt, &disk, options(mode)).unwrap();
            write(&file, 1);
            assert_eq!(read_only(rt, &disk).unwrap_err().kind(), ErrorKind::Locked);
            file.close().unwrap();
            let held = read_only(rt, &disk).unwrap();
            assert!(held.page(3).unwrap()[..] == page(1)[..]);
            // The writer may have ended by now.
            for closes in [false, true] {
                let file = open(rt, &disk, options(mode)).unwrap();
                write(&file, 2);
                write(&file, 3);
                if closes {
                    file.clone().close().unwrap();
                }
                for n in 0..10 {
                    assert_eq!(
                        held.page(n).unwrap_err().kind(),
                        ErrorKind::Locked,
                        "{mode:?}"
                    );
                }
                let copied =
                    held.backup("/copy", BackupOptions::new().require(Guarantee::PowerLoss));
                assert_eq!(copied.unwrap_err().kind(), ErrorKind::Locked);
                drop(file);
            }
            assert!(read_only(rt, &disk).unwrap().page(3).unwrap()[..] == page(3)[..]);
        });
    }
}

#[test]
fn a_missing_log_or_map_is_an_error() {
    for (dir, name) in [(PATH, "map"), ("/file/log", "control")] {
        let disk = disk(1);
        SimRuntime::run(1, |rt| {
            let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
            file.transact(|txn| txn.write(0, &page(1))).unwrap();
            file.close().unwrap();
            assert!(disk.remove_file(dir, name));
            let e = read_only(rt, &disk).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Damaged, "{name}: {e}");
        });
    }
}
