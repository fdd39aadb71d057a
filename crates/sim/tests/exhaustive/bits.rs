//! Every bit of every file of a log, flipped.

use super::expect::{Fate, Trial, names_control};
use super::logs;
use super::regions::{Part, Region, parts};
use super::workers::{all, share, thorough};
use logforce_format::{CONTROL_SLOT_LEN, CONTROL_SLOT_OFFSETS, META_SLOT_OFFSETS};
use logforce_sim::fixture::{Fixture, look, open_to_write};
use logforce_sim::memory::FileImage;
use logforce_sim::mending::OnDamage;
use logforce_sim::model::PATH;
use std::collections::BTreeMap;
use std::ops::AddAssign;

/// Number of bytes of a part that form one piece of work.
const PIECE: usize = 64;

/// Ways in which a flipped bit is checked.
#[derive(Debug, Clone, Copy)]
struct Ways {
    look: bool,
    open: bool,
    truncate: bool,
    /// Number of bits that it stands for, because the others of the byte are the same case.
    stands_for: u64,
}

/// Returns the ways in which a flip is checked, or `None` if it is left out. Every relevant bit is checked in
/// every way. The following cases are left out, because others stand for them. `LOGFORCE_EXHAUSTIVE=all`
/// leaves out nothing.
///
/// - Payloads: a truncating opening is tried for one bit of each byte. Any flipped bit makes the checksum
///   wrong, and then the payload is not read further.
/// - Zeroes that a slot's checksum covers: an opening is tried for one bit of each byte. The slot is
///   rejected before any field of it is read.
/// - Void bytes: the same bit of 64 bytes is flipped at once, and one of the 64 alone. An opening is tried
///   for one of the eight groups. Code that compared these bytes with zeroes or a checksum would see 64
///   changed bits if it saw one. A checksum of 32 bits misses one such burst in four billion.
/// - Outside of a deep run these three get only the one bit of each byte, and the one group of eight, with
///   the most checks, because no code reads a single bit of them. All of these are inspected. One payload
///   byte in four is opened, and one in eight is truncated at. The zeroes of a slot are then flipped 64 at a
///   time, like void bytes. Of the groups of 64 bytes one in four is tried, and every smaller group, because
///   no code reads one of these places and not the next.
/// - Of all other bits, outside of a deep run, one of each byte is tried: the same bits of the closed and
///   the torn log, others of the crashed log (`turn`). All three have the same fields.
fn ways(region: Region, byte: usize, bit: u8, turn: usize) -> Option<Ways> {
    let one = all() || byte % 8 == usize::from(bit);
    let every = Ways {
        look: true,
        open: true,
        truncate: true,
        stands_for: 1,
    };
    let (one, ways) = match region {
        Region::Payload(_) => (
            one,
            Ways {
                open: thorough() || byte / 8 % 4 == turn,
                truncate: one && (thorough() || byte / 8 % 8 == turn),
                ..every
            },
        ),
        Region::ControlRest(_) | Region::MetaRest(_) if thorough() => (
            one,
            Ways {
                open: one,
                truncate: all(),
                ..every
            },
        ),
        _ if together(region) => {
            let one = all() || byte / PIECE % 8 == usize::from(bit);
            let ways = Ways {
                open: one,
                truncate: one,
                ..every
            };
            (one, ways)
        }
        // A truncating opening meets the damage in the same code as a refusing one.
        _ => {
            let is_here = thorough() || (byte + usize::from(bit)) % 8 == turn;
            return is_here.then_some(Ways {
                truncate: one || thorough(),
                stands_for: if thorough() { 1 } else { 8 },
                ..every
            });
        }
    };
    if thorough() {
        return Some(ways);
    }
    one.then_some(Ways {
        stands_for: 8,
        ..ways
    })
}

/// Returns true if the bytes of a piece are flipped at once.
fn together(region: Region) -> bool {
    match region {
        Region::Void | Region::Live => !all(),
        Region::ControlRest(_) | Region::MetaRest(_) => !thorough(),
        _ => false,
    }
}

#[derive(Debug, Default)]
struct Count {
    fates: BTreeMap<Fate, u64>,
    looked: u64,
    opened: u64,
    truncated: u64,
    /// Number of bits that were flipped alone.
    singly: u64,
    /// Number of bits that were flipped only together with the same bit of other bytes.
    together: u64,
    flips_together: u64,
    /// Number of bits that were not flipped, because another stands for them.
    left_out: u64,
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Count) {
        for (fate, n) in other.fates {
            *self.fates.entry(fate).or_default() += n;
        }
        self.looked += other.looked;
        self.opened += other.opened;
        self.truncated += other.truncated;
        self.singly += other.singly;
        self.together += other.together;
        self.flips_together += other.flips_together;
        self.left_out += other.left_out;
    }
}

struct Flipper<'a> {
    fixture: &'a Fixture,
    turn: usize,
    image: FileImage,
    count: Count,
}

impl Flipper<'_> {
    /// Flips `bit` of these bytes at once, checks in the given ways, and flips it back.
    fn flip(&mut self, part: &Part, bytes: &[usize], bit: u8, ways: Ways) {
        let what = match bytes {
            [byte] => format!("bit {bit} of byte {byte}"),
            _ => format!("bit {bit} of {} bytes from {}", bytes.len(), bytes[0]),
        };
        let case = Trial {
            fixture: self.fixture,
            region: part.region,
            what: format!(
                "{}: {what} of {} ({:?})",
                self.fixture.name, part.file, part.region
            ),
        };
        for byte in bytes {
            self.image.flip(&part.file, *byte, bit);
        }
        let system = || self.image.system(PATH);
        let mut fates = Vec::new();
        if ways.look {
            fates.push(case.looked(look(&system(), false)));
            self.count.looked += 1;
        }
        if ways.open {
            let opened = open_to_write(&system(), &self.fixture.options, OnDamage::Refuse);
            fates.push(case.opened(opened));
            self.count.opened += 1;
        }
        if ways.truncate {
            let opened = open_to_write(&system(), &self.fixture.options, OnDamage::Repair);
            case.truncated(opened);
            self.count.truncated += 1;
        }
        for byte in bytes {
            self.image.flip(&part.file, *byte, bit);
        }
        // Only the inspector sees statistics that became invalid.
        let same = fates.windows(2).all(|f| f[0] == f[1]);
        assert!(
            same || part.region == Region::Live,
            "{}: {fates:?}",
            case.what
        );
        let fate = *fates.first().expect("each flip is looked at");
        let bits = bytes.len() as u64;
        *self.count.fates.entry(fate).or_default() += bits * ways.stands_for;
        self.count.left_out += bits * (ways.stands_for - 1);
        if let [_] = bytes {
            self.count.singly += 1;
        } else {
            self.count.together += bytes.len() as u64;
            self.count.flips_together += 1;
        }
    }

    fn piece(&mut self, piece: &Part) {
        let bytes: Vec<usize> = piece.bytes.clone().collect();
        let turn = self.turn;
        for bit in 0..8 {
            let ways = |byte| ways(piece.region, byte, bit, turn);
            if !together(piece.region) {
                for byte in &bytes {
                    if let Some(ways) = ways(*byte) {
                        self.flip(piece, &[*byte], bit, ways);
                    }
                }
                continue;
            }
            // The first byte of the piece decides for all of its bytes.
            let Some(ways) = ways(bytes[0]) else {
                continue;
            };
            let mut bytes = bytes.clone();
            if ways.open {
                let alone = bytes.remove(piece.bytes.start / PIECE % bytes.len());
                self.flip(piece, &[alone], bit, ways);
            }
            if !bytes.is_empty() {
                self.flip(piece, &bytes, bit, ways);
            }
        }
    }
}

/// Splits parts into pieces, so that the processors get even shares.
fn pieces(fixture: &Fixture) -> Vec<Part> {
    let mut pieces = Vec::new();
    for part in parts(fixture) {
        let mut at = part.bytes.start;
        while at < part.bytes.end {
            let end = (at + PIECE).min(part.bytes.end);
            let mut piece = part.clone();
            piece.bytes = at..end;
            pieces.push(piece);
            at = end;
        }
    }
    // The pieces that most likely find a bug come first.
    pieces.sort_by_key(|p| p.region == Region::Void);
    pieces
}

/// Returns true if the piece is checked outside of a deep run; see `ways`.
fn has_its_turn(piece: &Part) -> bool {
    let is_one_of_many = together(piece.region) && piece.bytes.len() == PIECE;
    !is_one_of_many || (piece.bytes.start / PIECE).is_multiple_of(4)
}

fn flip_everything(fixture: &Fixture, turn: usize, files: fn(&str) -> bool) -> Count {
    let mut pieces = pieces(fixture);
    pieces.retain(|p| files(&p.file) && (thorough() || has_its_turn(p)));
    let begin = || Flipper {
        fixture,
        turn,
        image: fixture.image.clone(),
        count: Count::default(),
    };
    let workers = share(pieces.len(), begin, |flipper, n| flipper.piece(&pieces[n]));
    let mut count = Count::default();
    for flipper in workers {
        assert!(flipper.image == fixture.image, "all is flipped back");
        count += flipper.count;
    }
    let chosen = fixture.image.files.iter().filter(|(name, _)| files(name));
    let whole = chosen.map(|(_, f)| f.len() as u64 * 8).sum::<u64>();
    let bits = pieces.iter().map(|p| p.bytes.len() as u64 * 8).sum::<u64>();
    assert!(bits == whole || !thorough());
    assert_eq!(count.fates.values().sum::<u64>(), bits);
    assert_eq!(count.singly + count.together + count.left_out, bits);
    let of = |fate| count.fates.get(&fate).copied().unwrap_or_default();
    println!(
        "exhaustive bits ({}): {bits} bits of {whole}, {} flipped singly and {} in {} flips of up to {PIECE} at \
         once, another stands for {}; {} detected, {} reported by the other slot, {} without effect, {} above the highest stamp; \
         flips looked at: {}, opened: {}, opened to truncate: {}",
        fixture.name,
        count.singly,
        count.together,
        count.flips_together,
        count.left_out,
        of(Fate::Detected),
        of(Fate::OtherSlot),
        of(Fate::NoEffect),
        of(Fate::AboveStamp),
        count.looked,
        count.opened,
        count.truncated,
    );
    count
}

/// Returns the number of bits of the batches that no stamp proves.
fn unprovable(fixture: &Fixture) -> u64 {
    let bits = |b: &logforce_core::BatchInfo| 8 * (128 + u64::from(b.payload_len));
    let anchor = fixture.look.summary.anchor;
    let batches = fixture.batches.iter().enumerate();
    let unproven = batches
        .filter(|(n, b)| b.lsn >= anchor && fixture.stamp_behind(*n).is_none_or(|s| s <= b.lsn));
    unproven.map(|(_, b)| bits(b)).sum()
}

#[test]
fn every_bit_of_a_closed_log() {
    let fixture = logs::closed();
    let count = flip_everything(&fixture, 0, |_| true);
    // After a clean close no damage can pass for a torn tail.
    assert_eq!(count.fates.get(&Fate::AboveStamp), None);
    assert_eq!(unprovable(&fixture), 0);
}

#[test]
fn every_bit_of_a_crashed_log() {
    let fixture = logs::crashed();
    let count = flip_everything(&fixture, 1, |_| true);
    let above = count.fates.get(&Fate::AboveStamp).copied();
    assert_eq!(above, Some(unprovable(&fixture)));
    // While commits follow each other, only the last batch is not proven.
    let last = fixture
        .batches
        .last()
        .map(|b| 8 * (128 + u64::from(b.payload_len)));
    assert_eq!(above, last);
}

/// A torn write with a whole header proves the batch before it, and no flipped bit makes it a batch. The
/// other files are the same as those of the logs above.
#[test]
fn every_bit_of_a_torn_log() {
    let fixture = logs::torn();
    let count = flip_everything(&fixture, 0, |file| file.ends_with(".seg"));
    assert_eq!(unprovable(&fixture), 0);
    assert_eq!(count.fates.get(&Fate::AboveStamp), None);
}

/// Flips of the same bit of both slots: neither slot is used, and the error names both.
#[test]
fn every_bit_of_both_slots() {
    let fixture = logs::closed();
    let open = |image: &FileImage, on_damage| {
        let system = image.system(PATH);
        open_to_write(&system, &fixture.options, on_damage)
    };
    let begin = || fixture.image.clone();
    share(CONTROL_SLOT_LEN * 8, begin, |image, n| {
        let (byte, bit) = (n / 8, (n % 8) as u8);
        for slots in [CONTROL_SLOT_OFFSETS, META_SLOT_OFFSETS] {
            let what = format!("bit {bit} of byte {byte} of the slots at {slots:?}");
            let flip = |image: &mut FileImage| {
                for at in slots {
                    image.flip("control", at as usize + byte, bit);
                }
            };
            flip(image);
            names_control(open(image, OnDamage::Refuse), &what);
            if bit == (byte % 8) as u8 {
                let truncated = open(image, OnDamage::Repair);
                if slots == CONTROL_SLOT_OFFSETS {
                    names_control(truncated, &what);
                } else {
                    let shown = truncated.unwrap_or_else(|e| panic!("{what}: {e}"));
                    let lost = shown.meta.expect_err("the metadata is lost");
                    assert_eq!(lost.file.as_deref(), Some("control"), "{what}");
                    assert!(shown.records == fixture.shown.records, "{what}");
                }
            }
            flip(image);
        }
    });
    println!(
        "exhaustive bits (both slots): {} pairs of flips, all refused",
        2 * CONTROL_SLOT_LEN * 8
    );
}
