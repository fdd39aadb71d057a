//! Crashes during recovery.

use crate::crash::{AFTER, Case, case, spanning, truncation};
use logforce_core::Method;
use logforce_sim::model::small;
use logforce_sim::workload::Step;
use logforce_testkit::{Failure, SimOptions};

impl Case {
    /// Cuts the power at every `stride`th operation of the workload, then at every operation of the
    /// recovery; with `twice`, then also at some operations of the recovery from that.
    fn crash_in_recovery(&self, stride: usize, twice: bool) {
        let whole = self.world("whole");
        whole.work(1, &self.threads).expect("nothing fails");
        let ops = whole.disk.ops();
        for op in (20..ops).step_by(stride) {
            let world = self.world(&format!("cut at {op} of {ops}"));
            world.disk.cut_at(op);
            let _ = world.work(1, &self.threads);
            world.disk.reboot(op);
            let first = world.image();
            assert!(world.try_open(op, Failure::Power), "{}", world.name);
            let steps = world.disk.ops();
            for step in 0..steps {
                world.restore(&first);
                world.disk.cut_at(step);
                world.try_open(op, Failure::Power);
                world.disk.reboot(op ^ step << 20);
                if twice {
                    let second = world.image();
                    for again in (step % 3..steps).step_by(3) {
                        world.restore(&second);
                        world.disk.cut_at(again);
                        world.try_open(op + again, Failure::Power);
                        world.disk.reboot(op ^ again << 24);
                        let recovered = world.recover(op, Failure::Power, &[]);
                        recovered.unwrap_or_else(|e| panic!("{} {step} {again}: {e}", world.name));
                    }
                    world.restore(&second);
                }
                let after = if step % 8 == 0 { &AFTER[..] } else { &[] };
                let recovered = world.recover(op, Failure::Power, after);
                recovered.unwrap_or_else(|e| panic!("{} {step}: {e}", world.name));
            }
        }
    }
}

#[test]
fn a_crash_in_recovery_is_recoverable() {
    case("truncation", vec![truncation()]).crash_in_recovery(7, false);
    case("spanning", vec![spanning()]).crash_in_recovery(7, false);
}

#[test]
fn without_direct_reads_too() {
    let mut case = case("no direct", vec![spanning()]);
    case.disk = SimOptions {
        direct: false,
        ..SimOptions::default()
    };
    case.options = small().method(Method::Fdatasync);
    case.crash_in_recovery(11, false);
}

#[test]
fn two_crashes_in_recovery() {
    let steps = vec![
        Step::Commit(3_000),
        Step::Append(30_000),
        Step::Force,
        Step::Front(50),
        Step::Back(1),
        Step::Group(3, 6_000),
    ];
    case("twice", vec![steps]).crash_in_recovery(9, true);
}
