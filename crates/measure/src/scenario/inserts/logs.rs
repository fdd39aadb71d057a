//! Ledgers of Logforce: each sale is a record of one log or of two.

use super::two_logs::bring_into_step;
use super::{Policy, ReadBack, Sale, SalesLedger, Session, Setting, Table};
use crate::run::library::{self, LogSetup, SharedLog};
use crate::scenario::group::Setup;
use crate::{Interrupt, MeasureError};
use logforce::{Log, Lsn, Method, disk::Facts};
use logforce_device::{Assessment, FileState, ForceBy, Guarantee, Plan, Source, Verdict};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Time within which a record is forced if its commit does not wait for that, as in the published policies.
const WITHIN: Duration = Duration::from_secs(1);

/// Returns the log under all policies, without and with a second log. `segment_size` is in bytes.
pub fn ledgers(
    setup: &Setup,
    facts: &Facts,
    segment_size: u64,
) -> Result<Vec<Box<dyn SalesLedger>>, MeasureError> {
    let method = library::default_method(facts);
    let Some(forced) = library::assess(facts, method) else {
        return Err(MeasureError::NotOffered(facts.why_not_offered(method)));
    };
    let unforced = Plan {
        force: ForceBy::None,
        ..method.plan()
    };
    let written = facts
        .assess_plan(unforced, FileState::Zeroed)
        .map_or(Guarantee::ProcessCrash, |a| a.guarantee);
    let log = |name: &str| {
        let place = LogSetup {
            path: setup.path.join(name),
            method,
            guarantee: forced.guarantee,
            segment_size,
        };
        let shared = SharedLog::new(place, setup.interrupt.clone(), Rc::clone(&setup.progress));
        Rc::new(RefCell::new(shared.through(Arc::clone(&setup.system))))
    };
    let (first, second) = (log("log"), log("second-log"));
    let mut ledgers: Vec<Box<dyn SalesLedger>> = Vec::new();
    for second_log in [false, true] {
        for policy in Policy::ALL {
            let mut logs = vec![Rc::clone(&first)];
            if second_log {
                logs.push(Rc::clone(&second));
            }
            ledgers.push(Box::new(Logs {
                setting: setting(policy, second_log, method, worth(policy, &forced, written)),
                logs,
                interrupt: setup.interrupt.clone(),
            }));
        }
    }
    Ok(ledgers)
}

fn setting(policy: Policy, second_log: bool, method: Method, worth: Assessment) -> Setting {
    let words = match policy {
        Policy::Force => "Force",
        Policy::Write => "Write, force within 1 s",
        Policy::Later => "Interval of 1 s",
    };
    let second = if second_log { ", second log" } else { "" };
    Setting {
        system: "Logforce".to_owned(),
        version: String::new(),
        settings: format!("{words}{second}"),
        policy: Some(policy),
        second_log: Some(second_log),
        usual: true,
        worth: Some(worth),
        on_this_disk: true,
        by_fua: method == Method::DirectDsync,
    }
}

/// Assesses a commit under `policy` at the time when it returns. `forced` is the guarantee of a force,
/// `written` that of a write without a force.
fn worth(policy: Policy, forced: &Assessment, written: Guarantee) -> Assessment {
    let (guarantee, evidence) = match policy {
        Policy::Force => return forced.clone(),
        Policy::Write => (
            written,
            "the record is written when the commit returns, and forced within a second",
        ),
        Policy::Later => (
            Guarantee::Nothing,
            "the record is in the process's memory when the commit returns, and written and forced \
             within a second",
        ),
    };
    Assessment::new(guarantee, Verdict::Declared, Source::System, evidence)
}

/// The logs under one policy.
struct Logs {
    setting: Setting,
    /// Logs in the order in which a transaction goes into them. All policies share them.
    logs: Vec<Rc<RefCell<SharedLog>>>,
    interrupt: Interrupt,
}

impl SalesLedger for Logs {
    fn setting(&self) -> &Setting {
        &self.setting
    }

    fn open(&self) -> Result<Box<dyn Table>, MeasureError> {
        let open = |log: &Rc<RefCell<SharedLog>>| log.borrow_mut().ready();
        Ok(Box::new(OpenLogs {
            logs: self.logs.iter().map(open).collect::<Result<_, _>>()?,
            policy: match self.setting.policy {
                Some(Policy::Write) => logforce::Policy::Write {
                    force_within: WITHIN,
                },
                Some(Policy::Later) => logforce::Policy::Interval { within: WITHIN },
                _ => logforce::Policy::Force,
            },
            interrupt: self.interrupt.clone(),
        }))
    }

    fn read_back(&self, found: &mut ReadBack) -> Result<(), MeasureError> {
        let mut opened = Vec::new();
        for log in &self.logs {
            opened.push(log.borrow_mut().reopen()?);
        }
        if let [first, second] = &opened[..] {
            found.redone(bring_into_step(first, second)?);
        }
        for (log, shared) in opened.iter().zip(&self.logs) {
            let mut end = log.front_lsn();
            for record in log.read_from(end)? {
                let record = record?;
                end = record.end;
                // Both logs hold the same transactions; only the first is counted.
                if Rc::ptr_eq(shared, &self.logs[0]) {
                    found.see(Sale::of_record(&record.data).as_ref());
                }
            }
            used(shared, end);
        }
        Ok(())
    }
}

/// Marks all records as no longer needed, so that the next table is empty.
fn used(shared: &Rc<RefCell<SharedLog>>, end: Lsn) {
    shared.borrow_mut().used_to(end);
}

struct OpenLogs {
    logs: Vec<Log>,
    policy: logforce::Policy,
    interrupt: Interrupt,
}

impl Table for OpenLogs {
    fn session(&self) -> Result<Box<dyn Session>, MeasureError> {
        Ok(Box::new(Client {
            logs: self.logs.clone(),
            policy: self.policy,
            interrupt: self.interrupt.clone(),
        }))
    }

    fn forces(&self) -> Option<u64> {
        let of = |log: &Log| {
            let counters = log.stats().counters;
            counters.through_writes + counters.barriers
        };
        Some(self.logs.iter().map(of).sum())
    }
}

struct Client {
    logs: Vec<Log>,
    policy: logforce::Policy,
    interrupt: Interrupt,
}

impl Session for Client {
    fn insert_and_commit(&mut self, sale: &Sale) -> Result<(), MeasureError> {
        let record = sale.record();
        for (nth, log) in self.logs.iter().enumerate() {
            if nth > 0 {
                // A stop between the two logs leaves a transaction that only the first has, as a crash
                // does. It was not acknowledged.
                self.interrupt.check()?;
            }
            log.commit_with(&record, self.policy)?;
        }
        Ok(())
    }
}
