//! Every bit of a small page file: a flip is reported with its place or has no effect. If pages have
//! checksums, no wrong page is ever served.

use super::{PATH, Subject, subject};
use crate::exhaustive::workers::{share, thorough};
use logforce_core::OpenMode;
use logforce_pages::{CommitMode, Error, ErrorKind};
use logforce_sim::pages::model::State;
use logforce_testkit::{SimDisk, SimOptions, SimRuntime, Snapshot};

const LOG: &str = "/db/log";

/// Counts of the effects of flips.
#[derive(Debug, Default)]
struct Count {
    flips: u64,
    refused: u64,
    pages: u64,
    older: u64,
}

/// Returns a file that was killed with commits in its log that the data file does not hold yet.
fn killed(subject: &Subject) -> (Snapshot, u64, State) {
    let options = SimOptions {
        log_lines: 0,
        ..SimOptions::default()
    };
    let disk = SimDisk::new(options, 5);
    let (commit, state) = SimRuntime::run(3, |rt| {
        let file = subject
            .open(&disk, rt, OpenMode::CreateNew)
            .expect("nothing fails");
        for done in super::transactions(subject.mode).iter().take(6) {
            subject.commit(&file, done).expect("nothing fails");
            if done.stamp == 4 {
                file.checkpoint().expect("nothing fails");
            }
        }
        let found = subject.look(&file).expect("nothing fails");
        disk.cut();
        found
    });
    disk.reboot(1);
    (disk.snapshot(), commit, state)
}

/// A bit, by its file and offset.
#[derive(Debug, Clone)]
struct Bit {
    dir: &'static str,
    name: String,
    offset: u64,
    bit: u8,
}

/// Returns the bits to flip: all bits of fields; and some bits, in a deep run all, of zeroes and of bytes
/// that only a checksum reads.
fn bits(disk: &SimDisk) -> Vec<Bit> {
    let mut all = Vec::new();
    for dir in [PATH, LOG] {
        for name in disk.stable_names(dir) {
            let Some(bytes) = disk.file_bytes(dir, &name) else {
                continue;
            };
            for (offset, byte) in (0..).zip(&bytes) {
                let is_header = name == "pages" && matches!(offset, 0..96 | 65_536..65_632);
                let is_entry = name == "map" && offset < 8 + 8 * 40;
                let some = match (is_header || is_entry, *byte != 0) {
                    (true, _) => 1,
                    (false, true) if thorough() => 1,
                    (false, true) => 37,
                    (false, false) if thorough() => 61,
                    (false, false) => 4801,
                };
                all.extend(
                    (0..8)
                        .filter(|bit| (8 * offset + bit) % some == 0)
                        .map(|bit| Bit {
                            dir,
                            name: name.clone(),
                            offset,
                            bit: bit as u8,
                        }),
                );
            }
        }
    }
    all
}

fn flip(
    subject: &Subject,
    killed: &(Snapshot, u64, State),
    disk: &SimDisk,
    bit: &Bit,
    count: &mut Count,
) {
    let (image, commit, expected) = killed;
    disk.restore(image);
    assert!(disk.flip_bit(bit.dir, &bit.name, bit.offset, bit.bit));
    let what = format!("{:?}, {bit:?}", subject.mode);
    count.flips += 1;
    SimRuntime::run(9, |rt| {
        let file = match subject.open(disk, rt, OpenMode::OpenExisting) {
            Ok(file) => file,
            Err(e) => {
                is_damage(&e, bit, &what);
                count.refused += 1;
                return;
            }
        };
        let snapshot = file.snapshot().expect("it is open");
        // With a damaged newer header, a copy-on-write file shows the commit before. In a log, the last
        // batch above the highest stamp passes for a torn one.
        let may_be_older =
            bit.dir == LOG || (subject.mode == CommitMode::CopyOnWrite && bit.name == "pages");
        assert!(
            snapshot.commit() == *commit || (may_be_older && snapshot.commit() == commit - 1),
            "{what}: commit {}",
            snapshot.commit()
        );
        let states = subject.states();
        let expected = match snapshot.commit() == *commit {
            true => expected,
            false => &states[*commit as usize - 1],
        };
        count.older += u64::from(snapshot.commit() != *commit);
        assert_eq!(snapshot.page_count(), expected.count, "{what}");
        let mut buf = vec![0; subject.universe.size()];
        for page in subject.universe.pages().filter(|p| *p < expected.count) {
            match snapshot.read(page, &mut buf) {
                Ok(()) => {
                    let is_right = match expected.pages.get(&page) {
                        Some(image) => buf[..] == image[..],
                        None => buf.iter().all(|b| *b == 0),
                    };
                    assert!(
                        is_right,
                        "{what}: page {page} is served with wrong contents"
                    );
                }
                Err(e) => {
                    is_damage(&e, bit, &what);
                    let Error::Damaged { what: place, .. } = &e else {
                        continue;
                    };
                    let is_named = place == &format!("page {page}")
                        || place.contains("map")
                        || place.contains("node");
                    assert!(is_named, "{what}: page {page}: {e}");
                    count.pages += 1;
                }
            }
        }
        disk.cut();
    });
}

/// Checks that damage is reported as damage. Damage of the log is reported as by the log, or as a log that
/// ends too early for its data file. After the checkpointer met damage of the map, calls report a failed
/// file.
fn is_damage(e: &Error, bit: &Bit, what: &str) {
    let fits = match e.kind() {
        ErrorKind::Damaged => true,
        ErrorKind::Unsuitable => bit.dir == LOG,
        ErrorKind::Poisoned => bit.name == "map" || bit.dir == LOG,
        _ => false,
    };
    assert!(fits, "{what}: {:?}: {e}", e.kind());
}

fn every_bit(mode: CommitMode) {
    let subject = subject(mode, 0, true);
    let killed = killed(&subject);
    let disk = || {
        let disk = SimDisk::new(SimOptions::default(), 5);
        disk.restore(&killed.0);
        disk
    };
    let bits = bits(&disk());
    let counts = share(
        bits.len(),
        || (disk(), Count::default()),
        |(disk, count), n| flip(&subject, &killed, disk, &bits[n], count),
    );
    let mut all = Count::default();
    for (_, count) in counts {
        all.flips += count.flips;
        all.refused += count.refused;
        all.pages += count.pages;
        all.older += count.older;
    }
    println!("exhaustive page file, {mode:?}: {all:?}");
    assert!(all.pages > 0 && all.refused + all.older > 0, "{all:?}");
}

#[test]
fn every_bit_of_a_logged_page_file() {
    every_bit(CommitMode::Logged);
}

#[test]
fn every_bit_of_a_copy_on_write_page_file() {
    every_bit(CommitMode::CopyOnWrite);
}
