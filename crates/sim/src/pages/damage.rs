//! Checks of a page file on a corrupted copy: it must show the correct bytes or report the damage's place.

use super::model::{Image, State, Universe};
use super::workload::Notes;
use super::{PATH, Run};
use logforce_core::OpenMode;
use logforce_format::PageFileHeader;
use logforce_pages::{CommitMode, Error, ErrorKind, PageFile, Snapshot};
use logforce_testkit::{Rng, SectorFault, SimDisk, SimRuntime};

/// Offset of the first page, bytes.
const DATA: u64 = 128 << 10;
/// Offset of the second header slot, bytes.
const SECOND_SLOT: u64 = 64 << 10;
/// Number of bytes of a slot, and of a map's sector, that are checked.
const SLOT: u64 = 4096;

/// Largest number of bits that are flipped in a copy.
const MOST_FLIPS: u64 = 3;

/// Kind of place that was damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Slot,
    Pages,
    Map,
}

/// Damages one kind of place of the crashed disk, opens the file, and checks every page.
pub(super) fn corrupt_and_look(run: &mut Run, notes: &Notes, commit: u64, found: &State) {
    let schedule = run.rng.bits();
    // The crash may have torn a slot. If both are whole, one may be damaged.
    let has_two_slots = slots_of(&run.disk) == 2;
    let Some(place) = corrupt(&run.disk, &mut run.rng, run.fixed.mode) else {
        return;
    };
    run.coverage.corrupted_copies += 1;
    let _report = run.report(&format!("a copy damaged in {place:?}"));
    let damaged = SimRuntime::run(schedule, |rt| {
        let system = run.disk.system(rt);
        let options = run.options.clone();
        let file = match PageFile::open(&*system, PATH, OpenMode::OpenExisting, options) {
            Ok(file) => file,
            Err(e) => {
                assert!(place != Place::Slot || !has_two_slots, "one slot: {e}");
                is_reported(&e, place);
                return true;
            }
        };
        let snapshot = file.snapshot().expect("it is open");
        let shown = snapshot.commit();
        // A damaged newer slot of a copy-on-write file shows the commit before.
        let may_be_older = place == Place::Slot && run.fixed.mode == CommitMode::CopyOnWrite;
        assert!(
            shown == commit || (may_be_older && shown < commit),
            "commit {commit} is there, and {shown} is shown"
        );
        let expected = match shown == commit {
            true => found.clone(),
            false => match before(notes, &snapshot, shown, &run.fixed.universe) {
                Some(expected) => expected,
                // The commit is of an earlier boot, whose notes are gone.
                None => return false,
            },
        };
        let damaged = compare(run, &snapshot, &expected, place);
        drop(snapshot);
        let written = match place {
            Place::Map => write_beside(run, &file, expected),
            _ => None,
        };
        let Some(written) = written else {
            run.disk.cut();
            return damaged;
        };
        let options = run.options.clone();
        let file = match PageFile::open(&*system, PATH, OpenMode::OpenExisting, options) {
            Ok(file) => file,
            Err(e) => {
                is_reported(&e, place);
                return true;
            }
        };
        let snapshot = file.snapshot().expect("it is open");
        let still_damaged = compare(run, &snapshot, &written, place);
        drop(snapshot);
        run.disk.cut();
        damaged || still_damaged
    });
    run.coverage.damages += u64::from(damaged);
}

/// Writes a whole page, which mends a damaged one, then checkpoints and closes. Other pages that the map has
/// lost must stay damaged. Returns the state afterwards, or `None` if the file refused.
fn write_beside(run: &Run, file: &PageFile, mut expected: State) -> Option<State> {
    let universe = &run.fixed.universe;
    let mut rng = Rng::new(run.rng.clone().bits() ^ 0xbe51_de00);
    let page = rng.below(universe.pages().count() as u64);
    let page = universe.pages().nth(page as usize)?;
    let image = universe.contents(page, u64::MAX);
    let written = file.begin().and_then(|mut txn| {
        txn.write(page, &image)?;
        txn.commit()
    });
    let written = written
        .and_then(|_| file.checkpoint())
        .and_then(|()| file.clone().close());
    if let Err(e) = written {
        is_reported(&e, Place::Map);
        return None;
    }
    expected.pages.insert(page, image.into());
    expected.count = expected.count.max(page + 1);
    Some(expected)
}

/// Returns the state that the snapshot of an older commit must show. It is the shown state if the notes
/// explain it: a commit of unknown outcome may be this one or a later one. Returns `None` for a commit of
/// an earlier boot.
fn before(notes: &Notes, snapshot: &Snapshot, shown: u64, universe: &Universe) -> Option<State> {
    if shown < notes.history.base_commit {
        return None;
    }
    let state = State::of(snapshot, universe).unwrap_or_else(|e| panic!("one slot: {e}"));
    let seen = notes.seen.iter().map(|seen| (seen.commit, &seen.state));
    let known = &notes.history;
    match known.explain(&notes.unknown, (shown, &state), seen, universe) {
        Some(_) => Some(state),
        None => Some(known.at(shown, universe)),
    }
}

/// Reads every page. Returns whether damage was reported.
fn compare(run: &Run, snapshot: &Snapshot, expected: &State, place: Place) -> bool {
    let universe = &run.fixed.universe;
    assert_eq!(snapshot.page_count(), expected.count);
    let mut damaged = false;
    let mut buf = vec![0; universe.size()];
    for page in universe.pages().filter(|p| *p < expected.count) {
        match snapshot.read(page, &mut buf) {
            Ok(()) => {
                let wrong_bits = wrong_bits(&buf, expected.pages.get(&page));
                // Without checksums a page with flipped bits is served, but never another page.
                let may_be_wrong = match place == Place::Pages && !run.fixed.checksums {
                    true => MOST_FLIPS,
                    false => 0,
                };
                assert!(
                    wrong_bits <= may_be_wrong,
                    "page {page} is served with {wrong_bits} wrong bits"
                );
            }
            Err(e) => {
                assert!(place != Place::Slot, "one slot, page {page}: {e}");
                is_reported(&e, place);
                damaged = true;
            }
        }
    }
    damaged
}

fn wrong_bits(found: &[u8], expected: Option<&Image>) -> u64 {
    let expected = |n: usize| expected.map_or(0, |image| image[n]);
    let wrong = found.iter().enumerate().map(|(n, b)| b ^ expected(n));
    wrong.map(|b| u64::from(b.count_ones())).sum()
}

/// Returns the number of whole header slots.
fn slots_of(disk: &SimDisk) -> usize {
    let bytes = disk.file_bytes(PATH, "pages").unwrap_or_default();
    let slots = [0, SECOND_SLOT as usize].into_iter();
    let slots = slots.filter_map(|at| bytes.get(at..at + SLOT as usize));
    slots.filter(|s| PageFileHeader::decode(s).is_ok()).count()
}

/// Checks that the error names the damage. If the map is damaged, pages cannot be written either.
fn is_reported(error: &Error, place: Place) {
    let is_damage = match error.kind() {
        ErrorKind::Damaged => true,
        ErrorKind::Io | ErrorKind::Poisoned => place == Place::Map,
        _ => false,
    };
    assert!(
        is_damage,
        "{:?} after damage of {place:?}: {error}",
        error.kind()
    );
}

/// Damages the file: flips bits, makes sectors unreadable, or lets the device lose a sector of the map or a
/// write of one. Returns `None` if there is nothing to damage.
fn corrupt(disk: &SimDisk, rng: &mut Rng, mode: CommitMode) -> Option<Place> {
    let len = |name| disk.file_bytes(PATH, name).map_or(0, |b| b.len() as u64);
    let place = rng.pick(match mode {
        CommitMode::CopyOnWrite => &[Place::Slot, Place::Pages, Place::Pages],
        CommitMode::Logged => &[Place::Slot, Place::Pages, Place::Map],
    });
    let (name, from, to) = match place {
        Place::Slot => {
            let from = rng.pick(&[0, SECOND_SLOT]);
            ("pages", from, from + SLOT)
        }
        Place::Pages => ("pages", DATA, len("pages")),
        Place::Map => ("map", 0, len("map")),
    };
    // The last pages may be far away, with nothing between.
    let to = to.min(from + (256 << 10));
    if to <= from {
        return None;
    }
    let mut any = false;
    // Draws from a separate generator, so that the other choices of a seed stay the same.
    let mut aside = Rng::new(rng.clone().bits() ^ 0x5ec7_0125);
    if place == Place::Map && aside.one_in(2) {
        let fault = match aside.one_in(2) {
            true => SectorFault::Stale,
            false => SectorFault::Forged(vec![0; SLOT as usize].into()),
        };
        let offset = from + aside.below(to - from);
        return disk.inject(PATH, name, offset, &fault).then_some(place);
    }
    for _ in 0..1 + rng.below(MOST_FLIPS) {
        let mut bit = rng.below(8) as u8;
        let offset = match rng.below(3) {
            0 => from + rng.below(to - from),
            // Fields of a header, or the first entries of a map or a node.
            1 => from + rng.below((to - from).min(128)),
            // The bit that says if a page of the map is present.
            _ if place == Place::Map => {
                bit = 0;
                8 + 8 * rng.below(60)
            }
            // The children of a node that was written last.
            _ => to.saturating_sub(512).max(from) + 16 * rng.below(4),
        };
        any |= match rng.one_in(5) {
            true => disk.make_unreadable(PATH, name, offset),
            false => disk.flip_bit(PATH, name, offset, bit),
        };
    }
    any.then_some(place)
}
