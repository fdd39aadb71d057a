//! Bad sectors in and after the slots of the control file.

use crate::common::open;
use logforce_core::{Error, Log, Options};
use logforce_format::CONTROL_SLOT_OFFSETS;
use logforce_sim::model::{PATH, read, small};
use logforce_testkit::{Call, FailingCalls, Refusal, SimDisk, SimOptions, SimRuntime};

const RECORDS: usize = 6;

/// Returns options for the largest of these sectors.
fn roomy() -> Options {
    let options = small().segment_size(64 << 10).first_segment_size(64 << 10);
    options.max_batch_size(32 << 10).buffer_size(128 << 10)
}

fn closed(sector: u32) -> SimDisk {
    let options = SimOptions {
        sector,
        ..SimOptions::default()
    };
    let disk = SimDisk::new(options, 1);
    SimRuntime::run(1, |rt| {
        let log = open(&disk, rt, &roomy()).expect("made");
        for n in 0..RECORDS {
            log.commit(&[n as u8; 15_000]).expect("nothing fails");
        }
        log.close().expect("nothing fails");
    });
    disk.reboot(1);
    disk
}

/// Opens the log. Returns the number of records, and whether both slots were valid: only then the close is
/// known.
fn opened(disk: &SimDisk) -> Result<(usize, bool), Error> {
    SimRuntime::run(2, |rt| {
        let log: Log = open(disk, rt, &roomy())?;
        Ok((read(&log, log.front_lsn()).len(), log.recovered().clean))
    })
}

/// The 60 KiB after a slot are unused.
#[test]
fn a_bad_sector_behind_a_slot_loses_nothing() {
    for sector in [512, 4096, 16 << 10] {
        let disk = closed(sector);
        let image = disk.snapshot();
        for behind in [4096, 8192, 16 << 10, 61440] {
            if behind < u64::from(sector) {
                continue;
            }
            disk.restore(&image);
            disk.reboot(1);
            for slot in CONTROL_SLOT_OFFSETS {
                assert!(disk.make_unreadable(PATH, "control", slot + behind));
            }
            let shown = opened(&disk).unwrap_or_else(|e| panic!("{sector}, {behind}: {e}"));
            assert_eq!(shown, (RECORDS, true), "{sector}, {behind}");
        }
        // A bad sector in the slot itself loses only that slot.
        disk.restore(&image);
        disk.reboot(1);
        assert!(disk.make_unreadable(PATH, "control", CONTROL_SLOT_OFFSETS[0] + 4095));
        assert_eq!(opened(&disk).expect("it opens"), (RECORDS, false));
    }
}

/// While reads fail with an error of the process, the slot's contents are unknown: neither damaged nor lost.
#[test]
fn an_error_of_the_process_behind_one_of_the_medium_stays_an_error() {
    let disk = closed(512);
    let image = disk.snapshot();
    let mut failed = 0;
    for how in Refusal::OF_THE_PROCESS {
        for after in 0..12 {
            disk.restore(&image);
            disk.reboot(1);
            for slot in CONTROL_SLOT_OFFSETS {
                assert!(disk.make_unreadable(PATH, "control", slot + 8192));
            }
            disk.fail_calls(FailingCalls {
                calls: vec![Call::Read],
                how,
                after,
                failing: 4,
            });
            match opened(&disk) {
                Err(Error::Io { .. }) => failed += 1,
                Ok(shown) => assert_eq!(shown, (RECORDS, true), "{how:?} after {after}"),
                Err(e) => panic!("{how:?} after {after}: {e}"),
            }
        }
    }
    assert!(failed > 60, "{failed}");
}
