//! The control file names the latest batch that voids a range. If a forged one names another batch or none,
//! an opening uses what the log itself says, and its records exist at the next opening.

use crate::common::{forge_control, mended, open};
use logforce_core::{Error, RecoveryCase};
use logforce_format::{CONTROL_SLOT_LEN, CONTROL_SLOT_OFFSETS, Control, Lsn};
use logforce_sim::mending::OnDamage;
use logforce_sim::model::{PATH, read, small};
use logforce_testkit::{Failure, SimDisk, SimOptions, SimRuntime, Survival};

/// Time at which a part of the log is voided.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Voids {
    Nothing,
    InTheMiddle,
    Last,
}

fn log(voids: Voids, closes: bool) -> SimDisk {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let log = open(&disk, rt, &small()).expect("made");
        let mut back = Vec::new();
        for n in 0..8_u8 {
            back.push(log.commit(&vec![n; 9_000]).expect("nothing fails").start);
            if n == 4 && voids == Voids::InTheMiddle {
                log.truncate_back(back[3]).expect("nothing fails");
            }
        }
        if voids == Voids::Last {
            log.truncate_back(back[6]).expect("nothing fails");
            // Stores the end of the log, which lies after the voiding batch, in the control file.
            log.truncate_front(back[1]).expect("nothing fails");
        }
        match closes {
            true => log.close().expect("nothing fails"),
            false => disk.cut(),
        }
    });
    if !closes {
        disk.crash(Failure::Power, Some(Survival::Lost), 1);
    }
    disk.reboot(1);
    disk
}

fn control(disk: &SimDisk) -> Control {
    let bytes = disk.file_bytes(PATH, "control").expect("there");
    let slot = &bytes[CONTROL_SLOT_OFFSETS[0] as usize..][..CONTROL_SLOT_LEN];
    Control::decode(slot).expect("a slot")
}

/// Opens, commits this number of records, and cuts the power. Returns the number of records in the log.
fn opened(disk: &SimDisk, on_damage: OnDamage, commits: usize) -> Result<usize, Error> {
    let shown = SimRuntime::run(2, |rt| {
        let (log, _) = mended(disk, rt, &small(), on_damage)?;
        for _ in 0..commits {
            log.commit(b"one more").expect("nothing fails");
        }
        let shown = read(&log, log.front_lsn()).len();
        disk.cut();
        Ok(shown)
    });
    disk.crash(Failure::Power, Some(Survival::Lost), 2);
    disk.reboot(2);
    shown
}

#[test]
fn a_forged_begin_of_the_list_costs_nothing_that_is_committed_after_it() {
    let (mut went_on, mut refused) = (0, 0);
    for voids in [Voids::Nothing, Voids::InTheMiddle, Voids::Last] {
        for closes in [true, false] {
            let disk = log(voids, closes);
            let image = disk.snapshot();
            let right = control(&disk);
            let (anchor, last) = (right.anchor.lsn, right.anchor.last_void);
            let below = |of: Lsn| Lsn(of.0.saturating_sub(4096));
            let forged = [
                anchor,
                below(anchor),
                below(below(below(anchor))),
                below(last),
            ];
            for forged in forged
                .into_iter()
                .chain([last.plus(4096), right.front.plus(12_288)])
            {
                // A list that ends at or below the front is valid, and nothing contradicts it.
                if forged == last || forged <= right.front || forged > anchor {
                    continue;
                }
                for on_damage in [OnDamage::Refuse, OnDamage::Repair] {
                    for commits in [0, 1, 3] {
                        disk.restore(&image);
                        disk.reboot(1);
                        forge_control(&disk, |c| c.anchor.last_void = forged);
                        let what =
                            format!("{voids:?}, {closes}, {forged}, {on_damage:?}, {commits}");
                        let Ok(shown) = opened(&disk, on_damage, commits) else {
                            refused += 1;
                            continue;
                        };
                        went_on += 1;
                        let again = opened(&disk, OnDamage::Refuse, 0);
                        let again = again.unwrap_or_else(|e| panic!("{what}: {e}"));
                        assert_eq!(again, shown, "{what}");
                    }
                }
            }
        }
    }
    assert!(went_on > 30 && refused > 0, "{went_on}, {refused}");
}

/// The void ranges are then unknown. That is damage, and must not pass for a log without void ranges.
#[test]
fn an_unknown_range_is_refused() {
    let disk = log(Voids::Nothing, true);
    let anchor = control(&disk).anchor.lsn;
    forge_control(&disk, |c| c.anchor.last_void = anchor);
    match opened(&disk, OnDamage::Refuse, 0) {
        Err(Error::Damaged(d)) => {
            assert_eq!((d.lsn, d.case), (anchor, RecoveryCase::Damaged), "{d}")
        }
        other => panic!("{other:?}"),
    }
}
