//! Opening and inspecting a log while calls fail for a while: with errors of the process, which say nothing
//! about the log, or once with an error of the medium, which does not occur at a retry.

use super::World;
use crate::mending::OnDamage;
use crate::model::{PATH, lock, open};
use logforce_core::{Error, ErrorKind, Inspector, ReadOnly, Record, Visit};
use logforce_device::System;
use logforce_testkit::{Call, FailingCalls, Failure, Refusal, Rng, SimDisk, SimRuntime};
use std::sync::Arc;

/// Records that one way to read shows, in order.
type Shown = Result<Vec<Record>, Error>;

/// Ways to read a log that change nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Read,
    Follow,
    Walk,
    Salvage,
}

/// Number of errors in one reading after which calls stop failing.
const MAX_ERRORS: u32 = 12;

/// Draws failing calls that must have no effect once they are over: the caller gets an error that says
/// nothing about the log, or its call succeeds as if none had failed.
pub fn random_failing_calls(rng: &mut Rng) -> Vec<FailingCalls> {
    let mut medium = false;
    (0..rng.pick(&[1, 1, 1, 2, 3]))
        .map(|_| {
            let within = rng.pick(&[1, 8, 40, 150]);
            let after = rng.below(within);
            match rng.below(12) {
                // The log reads three times before it reports damage, so two errors of the medium are
                // harmless if there are no others.
                0..=2 if !medium => {
                    medium = true;
                    FailingCalls {
                        calls: vec![Call::Read],
                        how: Refusal::Medium,
                        after,
                        failing: 1 + rng.below(2),
                    }
                }
                3 => FailingCalls {
                    calls: vec![Call::Read],
                    how: rng.pick(&[Refusal::Nothing, Refusal::Half]),
                    after,
                    failing: rng.pick(&[1, 1, 2, u64::MAX]),
                },
                4 => FailingCalls {
                    calls: vec![Call::Entries],
                    how: rng.pick(&[Refusal::Nothing, Refusal::Half]),
                    after: rng.below(3),
                    failing: rng.pick(&[1, u64::MAX]),
                },
                5 => FailingCalls {
                    calls: Call::ALL.into_iter().filter(|c| *c != Call::Read).collect(),
                    how: Refusal::Medium,
                    after,
                    failing: rng.pick(&[1, 2, u64::MAX]),
                },
                n => FailingCalls {
                    calls: match n {
                        6 | 7 => Vec::new(),
                        8 | 9 => Call::LOOKS.to_vec(),
                        _ => vec![rng.pick(&Call::ALL)],
                    },
                    how: rng.pick(&Refusal::OF_THE_PROCESS),
                    after,
                    failing: rng.pick(&[1, 1, 2, 6, u64::MAX]),
                },
            }
        })
        .collect()
}

/// Draws failing reads; the writer's calls succeed.
pub(super) fn random_failing_reads(rng: &mut Rng) -> FailingCalls {
    let how = rng.pick(&[
        Refusal::TooManyFiles,
        Refusal::NoMemory,
        Refusal::Interrupted,
        Refusal::Medium,
        Refusal::Nothing,
        Refusal::Half,
    ]);
    FailingCalls {
        calls: vec![Call::Read],
        how,
        after: rng.below(30),
        failing: if how == Refusal::Medium {
            1 + rng.below(2)
        } else {
            rng.pick(&[1, 2, 5])
        },
    }
}

/// Checks that an error while calls fail does not report damage.
pub fn check_not_damage(e: &Error, what: &str) {
    assert_eq!(e.kind(), ErrorKind::Io, "amid failing calls, {what}: {e}");
}

/// Returns all records that a reader shows, continuing after errors of failing calls.
pub(super) fn read_through(
    disk: &SimDisk,
    what: &str,
    mut next: impl FnMut() -> Option<Result<Record, Error>>,
) -> Vec<Record> {
    let (mut records, mut failed) = (Vec::new(), 0);
    loop {
        match next() {
            None => return records,
            Some(Ok(record)) => records.push(record),
            Some(Err(e)) => {
                check_not_damage(&e, what);
                failed += 1;
                if failed == MAX_ERRORS {
                    disk.stop_failing_calls();
                }
                assert!(failed <= MAX_ERRORS, "{what}: {e}");
            }
        }
    }
}

impl World {
    /// Opens the log while calls fail. The opening succeeds as if none failed, or fails without reporting
    /// damage. It truncates nothing and sets no file aside. Returns whether it succeeded.
    pub fn open_amid_failing_calls(
        &self,
        seed: u64,
        failure: Failure,
        on_damage: OnDamage,
        failing_calls: &[FailingCalls],
    ) -> bool {
        let _report = self.report(format!(
            "opening amid failing calls, {on_damage:?}, schedule {seed}, {failing_calls:?}"
        ));
        let before = self.set_aside();
        for failing in failing_calls {
            self.disk.fail_calls(failing.clone());
        }
        let opened = SimRuntime::run(seed, |rt| {
            let system = self.disk.system(rt);
            let created = lock(&self.model).created;
            let mended = match created {
                true => on_damage.mend(&*system),
                false => Ok(None),
            };
            let opened = mended.and_then(|report| {
                if let Some(report) = report {
                    assert_eq!(
                        report.aside, None,
                        "repaired amid failing calls: {report:?}"
                    );
                }
                let options = self.options.clone();
                open(&*system, created, options, self.environment.as_ref())
            });
            self.disk.stop_failing_calls();
            match opened {
                Err(e) => {
                    check_not_damage(&e, "opening");
                    false
                }
                Ok(log) => {
                    let mut model = lock(&self.model).clone();
                    model.verify(&*system, &log, failure);
                    *lock(&self.model) = model;
                    self.note(&log);
                    true
                }
            }
        });
        // A short listing may have hidden a file of an interrupted preparation. The opening sets that file
        // aside when it finds the name taken.
        let hidden = |t: &FailingCalls| t.how.is_short() && t.calls.contains(&Call::Entries);
        if !failing_calls.iter().any(hidden) {
            assert_eq!(self.set_aside(), before, "set aside amid failing calls");
        }
        opened
    }

    /// Returns the names of files that were set aside as damaged.
    fn set_aside(&self) -> Vec<String> {
        let names = self.disk.names(PATH).into_keys();
        names.filter(|n| n.contains("damaged")).collect()
    }

    /// Reads the log in one way that changes nothing, first undisturbed and then while calls fail. Checks
    /// that both show the same records.
    pub fn look_amid_failing_calls(&self, seed: u64, rng: &mut Rng) {
        if !lock(&self.model).created {
            return;
        }
        let way = rng.pick(&[Look::Read, Look::Follow, Look::Walk, Look::Salvage]);
        let failing_calls = random_failing_calls(rng);
        let _report = self.report(format!(
            "{way:?} amid failing calls, schedule {seed}, {failing_calls:?}"
        ));
        let look = || SimRuntime::run(seed, |rt| way.shows(&self.disk.system(rt), &self.disk));
        let undisturbed = look().unwrap_or_else(|e| panic!("{way:?}, undisturbed: {e}"));
        for failing in failing_calls {
            self.disk.fail_calls(failing);
        }
        match look() {
            Err(e) => check_not_damage(&e, "looking"),
            Ok(shown) => assert!(
                shown == undisturbed,
                "{way:?} amid failing calls: {} records, undisturbed {}",
                shown.len(),
                undisturbed.len()
            ),
        }
        self.disk.stop_failing_calls();
    }
}

impl Look {
    fn shows(self, system: &Arc<dyn System>, disk: &SimDisk) -> Shown {
        match self {
            Look::Read => {
                let log = ReadOnly::open(&**system, PATH)?;
                let mut reader = log.read_from(log.front_lsn())?;
                Ok(read_through(disk, "reading", || reader.next()))
            }
            Look::Follow => {
                let log = ReadOnly::open(&**system, PATH)?;
                let mut follower = log.follow_lsn(log.front_lsn())?;
                let next = || match follower.try_next() {
                    // The follower showed a record before it could see the batch that voids it.
                    Err(Error::Voided { .. }) => None,
                    next => next.transpose(),
                };
                Ok(read_through(disk, "following", next))
            }
            Look::Walk => walk(&Inspector::open(&**system, PATH)?),
            Look::Salvage => walk(&Inspector::salvage(&**system, PATH)?),
        }
    }
}

fn walk(inspector: &Inspector) -> Shown {
    let mut records = Vec::new();
    let finding = inspector.walk(&mut |visit| {
        match visit {
            Visit::Record { record, .. } => records.push(record.clone()),
            Visit::Damage(d) => panic!("a healthy log is damaged: {d}"),
            _ => {}
        }
        true
    })?;
    assert_eq!(finding.damages, 0);
    Ok(records)
}
