//! Every length of every file: cut short anywhere, missing, or longer than before.

use super::expect::names_control;
use super::logs;
use super::regions::{Part, Region, parts};
use super::workers::{all, share, thorough};
use logforce_core::{Error, ErrorKind, RecoveryCase};
use logforce_format::{CONTROL_SLOT_LEN, CONTROL_SLOT_OFFSETS, META_SLOT_LEN, META_SLOT_OFFSETS};
use logforce_sim::fixture::{Fixture, Shown, look, open_to_write};
use logforce_sim::memory::{FileImage, MemorySystem};
use logforce_sim::mending::OnDamage;
use logforce_sim::model::PATH;
use std::collections::BTreeSet;
use std::sync::Arc;

/// New length of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    Missing,
    Is(usize),
}

/// A file of another length, with its checks.
struct Cut<'a> {
    fixture: &'a Fixture,
    file: &'a str,
    whole: usize,
    length: Length,
    what: String,
    image: FileImage,
}

#[derive(Debug, Default)]
struct Count {
    lengths: u64,
    opened: u64,
    detected: u64,
    other_slot: u64,
    no_effect: u64,
}

impl<'a> Cut<'a> {
    fn new(fixture: &'a Fixture, file: &'a str, length: Length) -> Cut<'a> {
        let mut image = fixture.image.clone();
        let bytes = image.files[file].clone();
        match length {
            Length::Missing => drop(image.files.remove(file)),
            Length::Is(len) => {
                let mut cut = bytes[..len.min(bytes.len())].to_vec();
                // Zeroes, as a filesystem shows there, or other bytes, as a copy may have at its end.
                cut.resize(len, if len % 2 == 0 { 0 } else { 0xa5 });
                image.files.insert(file.to_owned(), Arc::new(cut));
            }
        }
        Cut {
            fixture,
            file,
            whole: bytes.len(),
            length,
            what: format!("{}: {file} is {length:?} of {}", fixture.name, bytes.len()),
            image,
        }
    }

    fn system(&self) -> MemorySystem {
        self.image.system(PATH)
    }

    fn open(&self, on_damage: OnDamage) -> Result<Shown, Error> {
        open_to_write(&self.system(), &self.fixture.options, on_damage)
    }

    /// Checks the file by inspection and, with `opens`, also by opening.
    fn check(&self, opens: bool, count: &mut Count) {
        count.lengths += 1;
        count.opened += u64::from(opens);
        match self.file {
            "control" => self.control(opens, count),
            "lock" | "live" => {
                count.no_effect += 1;
                self.nothing(opens);
            }
            _ => match self.length {
                Length::Is(len) if len >= self.whole => {
                    count.no_effect += 1;
                    self.nothing(opens);
                }
                _ => {
                    count.detected += 1;
                    self.segment(opens);
                }
            },
        }
    }

    /// Checks that the length makes no difference.
    fn nothing(&self, opens: bool) {
        let (v, what) = (self.fixture, &self.what);
        let mut look = look(&self.system(), false).unwrap_or_else(|e| panic!("{what}: {e}"));
        if self.file == "live" {
            look.live.clone_from(&v.look.live);
        }
        assert!(look == v.look, "{what}: {look:#?}");
        if opens {
            for on_damage in [OnDamage::Refuse, OnDamage::Repair] {
                let shown = self
                    .open(on_damage)
                    .unwrap_or_else(|e| panic!("{what}: {e}"));
                assert!(shown == v.shown, "{what}: {shown:#?}");
            }
        }
    }

    /// Checks that a segment that the control file names is reported as lost.
    fn segment(&self, opens: bool) {
        let (v, what) = (self.fixture, &self.what);
        let segments = &v.look.summary.segments;
        let named = segments.iter().find(|s| s.name == self.file);
        let s = named.unwrap_or_else(|| panic!("{what}: what is that file?"));
        let look = look(&self.system(), false).unwrap_or_else(|e| panic!("{what}: {e}"));
        // The batches that it still holds are read. Their end is reported when the walk reaches it, and
        // the segment itself at the end of the walk. Nothing below the segment is damaged.
        let d = look.damages.iter().min_by_key(|d| d.lsn);
        let d = d.unwrap_or_else(|| panic!("{what}: verify found nothing"));
        let named = (d.lsn, d.case, d.file.as_deref());
        assert_eq!(
            named,
            (s.start, RecoveryCase::SegmentLost, Some(self.file)),
            "{what}"
        );
        v.were_appended(&look.records, what);
        if !opens {
            return;
        }
        match self.open(OnDamage::Refuse) {
            Err(Error::Damaged(d)) => {
                let named = (d.lsn, d.case, d.file.as_deref());
                assert_eq!(
                    named,
                    (s.start, RecoveryCase::SegmentLost, Some(self.file)),
                    "{what}"
                );
            }
            other => panic!("{what}: {other:?}"),
        }
        let shown = self.open(OnDamage::Repair);
        let shown = shown.unwrap_or_else(|e| panic!("{what}: not truncated: {e}"));
        assert_eq!(shown.meta, v.shown.meta, "{what}");
        let all = shown.records.len() == v.live.len();
        let voids = |b: &logforce_core::BatchInfo| {
            b.kind == logforce_core::BatchKind::Void && b.lsn >= s.start
        };
        if shown.lost.is_some() && v.batches.iter().any(voids) {
            // The voided ranges are not known any more.
            v.were_appended(&shown.records, what);
        } else {
            v.is_prefix(&shown.records, what);
            v.is_whole(&shown.records, what);
        }
        assert!(shown.lost.is_some() || all, "{what}: silently cut");
        if let Some(lost) = &shown.lost {
            assert_eq!(lost.lsn, s.start, "{what}");
            assert!(shown.tail > v.appended_to(), "{what}: LSNs are used again");
        }
    }

    /// Checks that a slot counts as long as its last byte exists.
    fn control(&self, opens: bool, count: &mut Count) {
        let (v, what) = (self.fixture, &self.what);
        let Length::Is(len) = self.length else {
            // There is no log, and a new one must not replace it.
            let kind = self.open(OnDamage::Repair).map_err(|e| e.kind());
            assert_eq!(kind.err(), Some(ErrorKind::NoLog), "{what}");
            count.detected += 1;
            return;
        };
        let there = |at: u64, slot: usize| at as usize + slot <= len;
        let control = CONTROL_SLOT_OFFSETS.map(|at| there(at, CONTROL_SLOT_LEN));
        let meta = META_SLOT_OFFSETS.map(|at| there(at, META_SLOT_LEN));
        if control == [false, false] {
            count.detected += 1;
            for on_damage in [OnDamage::Refuse, OnDamage::Repair] {
                names_control(self.open(on_damage), what);
            }
            return;
        }
        let look = look(&self.system(), false).unwrap_or_else(|e| panic!("{what}: {e}"));
        let lost_meta = meta == [false, false];
        let mut expected = v.look.clone();
        expected.summary.control_whole = control == [true, true];
        expected.summary.clean &= expected.summary.control_whole;
        expected.summary.meta_whole = meta == [true, true];
        if lost_meta {
            expected.summary.meta_len = None;
            expected.meta = look.meta.clone();
            expected.damages.clone_from(&look.damages);
            expected.finding.damages = 1;
            let d = look.meta.as_ref().expect_err("nothing is left of it");
            assert_eq!(d.file.as_deref(), Some("control"), "{what}");
            assert_eq!(look.damages.len(), 1, "{what}");
        }
        assert!(look == expected, "{what}: {look:#?}");
        match (lost_meta, control, meta) {
            (true, ..) => count.detected += 1,
            (_, [true, true], [true, true]) => count.no_effect += 1,
            _ => count.other_slot += 1,
        }
        if !opens {
            return;
        }
        let mut expected = v.shown.clone();
        expected.clean &= control == [true, true];
        let strict = self.open(OnDamage::Refuse);
        if lost_meta {
            names_control(strict, what);
            let shown = self.open(OnDamage::Repair);
            let shown = shown.unwrap_or_else(|e| panic!("{what}: not truncated: {e}"));
            assert!(shown.meta.is_err(), "{what}: the loss is not reported");
            expected.meta.clone_from(&shown.meta);
            assert!(shown == expected, "{what}: {shown:#?}");
        } else {
            let shown = strict.unwrap_or_else(|e| panic!("{what}: {e}"));
            assert!(shown == expected, "{what}: {shown:#?}");
        }
    }
}

/// Returns every length up to the file's own, some larger ones, and a missing file; each with the decision
/// whether to open the log, too. It is opened at all edges: within two bytes of the start or end of a
/// structure. Some cases are left out, because others stand for them (`LOGFORCE_EXHAUSTIVE=all` leaves out
/// nothing):
///
/// - Of the lengths at which the control file ends between two slots, one in 16 is tried. They differ only
///   in zeroes before or after the file's end, which read the same.
/// - In the second log, of the lengths at which a segment ends away from an edge, one in 8 is tried. The
///   code only checks that the file is shorter than its header says, and the first log has all lengths.
fn lengths(fixture: &Fixture, second: bool) -> Vec<(&str, Length, bool)> {
    let mut cuts = Vec::new();
    let parts = parts(fixture);
    for (file, bytes) in &fixture.image.files {
        let whole = bytes.len();
        let longer = [1, 2, 8, 511, 512, 4095, 4096, 4097, 65536, 1 << 20];
        let mut edges = BTreeSet::new();
        for part in parts.iter().filter(|p| p.file == *file) {
            for at in [part.bytes.start, part.bytes.end] {
                edges.extend(at.saturating_sub(2)..at + 3);
            }
        }
        let of_file = |p: &&Part| p.file == *file && p.region == Region::Void;
        let void: Vec<_> = parts.iter().filter(of_file).map(|p| &p.bytes).collect();
        let stride = |len: usize| match file.as_str() {
            "control" if void.iter().any(|v| v.contains(&len)) => 16,
            "control" if thorough() => 1,
            "control" => 8,
            // Outside of deep runs: the edges and every 64th length.
            _ if !thorough() => 64,
            _ if second => 8,
            _ => 1,
        };
        cuts.push((file.as_str(), Length::Missing, true));
        let lengths = (0..=whole).chain(longer.map(|more| whole + more));
        cuts.extend(lengths.filter_map(|len| {
            let edge = edges.contains(&len) || len > whole || all();
            let open = edge || len.is_multiple_of(64);
            let taken = open || len.is_multiple_of(stride(len));
            taken.then_some((file.as_str(), Length::Is(len), open))
        }));
    }
    cuts
}

fn cut_everything(fixture: &Fixture, second: bool) {
    let cuts = lengths(fixture, second);
    let whole: usize = fixture.image.files.values().map(|f| f.len() + 12).sum();
    const PIECE: usize = 256;
    let workers = share(cuts.len().div_ceil(PIECE), Count::default, |count, n| {
        for (file, length, opens) in &cuts[n * PIECE..cuts.len().min((n + 1) * PIECE)] {
            Cut::new(fixture, file, *length).check(*opens, count);
        }
    });
    let sum = |of: fn(&Count) -> u64| workers.iter().map(of).sum::<u64>();
    assert_eq!(sum(|c| c.lengths), cuts.len() as u64);
    assert_eq!(
        sum(|c| c.detected + c.other_slot + c.no_effect),
        cuts.len() as u64
    );
    println!(
        "exhaustive lengths ({}): {} lengths of {} files, of {whole} that there are: {} detected, {} reported by the other slot, {} \
         without effect; all looked at, {} opened",
        fixture.name,
        cuts.len(),
        fixture.image.files.len(),
        sum(|c| c.detected),
        sum(|c| c.other_slot),
        sum(|c| c.no_effect),
        sum(|c| c.opened),
    );
}

#[test]
fn every_length_of_a_closed_log() {
    cut_everything(&logs::closed(), false);
}

#[test]
fn every_length_of_a_crashed_log() {
    cut_everything(&logs::crashed(), true);
}
