//! Schedule of the rows: rounds of slices, so that a noisy neighbour does not affect one row only.

use crate::run::counters::CounterSource;
use crate::run::recorder::Limit;
use crate::run::rounds::{Turn, in_turn};
use crate::run::slices::Setup;
use crate::run::subject::{RowKey, Subject};
use crate::{Interrupt, MeasureError, Recorder};
use logforce_device::Assessment;
use logforce_terminal::progress::Progress;
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A planned row.
pub enum Planned {
    /// A row that can be measured.
    Run(Box<dyn Subject>),
    /// A row that can be measured on another device, with the counters of that device.
    Elsewhere(Box<dyn Subject>, Rc<dyn CounterSource>),
    /// A row that is not available here.
    NotOffered {
        /// Key of the row.
        key: RowKey,
        /// Reason why it is not available.
        reason: String,
    },
}

/// Share of the run that each row gets.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// Number of slices of each row.
    pub rounds: u32,
    /// Maximum number of commits of each row of chunks, over all slices.
    pub commits: u64,
    /// Time at which the run must end; `None` for no limit.
    pub deadline: Option<Instant>,
    /// True if each row gets its first slice even after the deadline.
    pub each_once: bool,
    /// Sustained write rate of the disk, bytes per second; `None` if unknown. Slices of rows that leave
    /// dirty bytes are kept so short that the write-back takes about as long as a slice.
    pub write_back: Option<f64>,
}

/// Context that all slices share.
pub struct Context {
    /// Flag that ends the run.
    pub interrupt: Interrupt,
    /// Counters of the device.
    pub counters: Rc<dyn CounterSource>,
    /// Receiver of progress.
    pub progress: Rc<dyn Progress>,
}

impl Context {
    /// Takes the context from the setup of a run.
    pub fn of(setup: &Setup) -> Context {
        Context {
            interrupt: setup.interrupt.clone(),
            counters: Rc::clone(&setup.counters),
            progress: Rc::clone(&setup.progress),
        }
    }
}

/// A row's result.
pub struct Measured {
    /// Key of the row.
    pub key: RowKey,
    /// Guarantee of a commit; `None` if the row is not available.
    pub assessment: Option<Assessment>,
    /// Measurements.
    pub recorder: Recorder,
    /// Reason why the row has no numbers.
    pub error: Option<String>,
}

/// Share of the remaining time that timed parts get. The rest is for preparing files and writing back.
pub const TIMED_SHARE: f64 = 0.75;

struct Runner {
    subject: Option<Box<dyn Subject>>,
    measured: Measured,
}

impl Runner {
    fn new(row: Planned, context: &Context) -> Self {
        let (row, counters) = match row {
            Planned::Elsewhere(subject, counters) => (Planned::Run(subject), counters),
            here => (here, Rc::clone(&context.counters)),
        };
        let recorder = Recorder::new(counters, context.interrupt.clone());
        match row {
            Planned::Run(subject) | Planned::Elsewhere(subject, _) => {
                let (key, assessment) = (subject.key().clone(), Some(subject.assessment().clone()));
                Runner {
                    subject: Some(subject),
                    measured: Measured {
                        key,
                        assessment,
                        recorder,
                        error: None,
                    },
                }
            }
            Planned::NotOffered { key, reason } => {
                let measured = Measured {
                    key,
                    assessment: None,
                    recorder,
                    error: Some(reason),
                };
                Runner {
                    subject: None,
                    measured,
                }
            }
        }
    }

    fn slice(&mut self, limit: &Limit) -> Result<(), MeasureError> {
        let Some(subject) = &mut self.subject else {
            return Ok(());
        };
        let recorder = &mut self.measured.recorder;
        subject.prepare()?;
        recorder.begin_slice();
        subject.run(limit, recorder)?;
        subject.finish()
    }
}

/// Runs all rows. Returns them in the given order, and whether the user interrupted the run.
pub fn run(planned: Vec<Planned>, budget: Budget, context: &Context) -> (Vec<Measured>, bool) {
    let mut runners: Vec<Runner> = planned
        .into_iter()
        .map(|row| Runner::new(row, context))
        .collect();
    let running = Cell::new(runners.iter().filter(|r| r.subject.is_some()).count());
    let turn = |runner: &mut Runner, turn: Turn| {
        context.interrupt.check()?;
        let late = budget.deadline.is_some_and(|d| Instant::now() >= d);
        if late && (turn.round > 0 || !budget.each_once) {
            return Err(MeasureError::Interrupted);
        }
        let Some(limit) = limit(runner, turn, running.get(), &budget) else {
            return Ok(None);
        };
        context.progress.doing(&describe(&runner.measured.key));
        match runner.slice(&limit) {
            Ok(()) | Err(MeasureError::Interrupted) => {}
            Err(e) => {
                let commits = runner.measured.recorder.commits();
                let after = match commits {
                    0 => String::new(),
                    n => format!(" (after {n} commits)"),
                };
                runner.measured.error = Some(format!("{e}{after}"));
                runner.subject = None;
                running.set(running.get() - 1);
            }
        }
        Ok(Some(()))
    };
    // Each row keeps its own records. A turn fails only if the time is over or the user interrupted.
    let _ = in_turn(
        budget.rounds,
        &mut runners,
        &*context.progress,
        turn,
        |_, ()| {},
    );
    let interrupted = context.interrupt.is_raised();
    let finish = |runner: Runner| {
        let mut measured = runner.measured;
        if measured.error.is_none() && measured.recorder.commits() == 0 {
            let why = if interrupted {
                "interrupted before its first commit"
            } else {
                "no commit in the available time"
            };
            measured.error = Some(why.to_owned());
        }
        measured
    };
    (runners.into_iter().map(finish).collect(), interrupted)
}

/// Returns the limit of the next slice of `runner`; `None` if the row is complete.
fn limit(runner: &Runner, turn: Turn, running: usize, budget: &Budget) -> Option<Limit> {
    let Turn { round, left } = turn;
    let subject = runner.subject.as_ref()?;
    let rounds_left = u64::from(budget.rounds - round);
    let commits_left = subject
        .most_commits(budget.commits)
        .saturating_sub(runner.measured.recorder.commits());
    if commits_left == 0 {
        return None;
    }
    let mut commits = commits_left.div_ceil(rounds_left);
    let Some(deadline) = budget.deadline else {
        return Some(Limit {
            commits,
            time: None,
        });
    };
    let slices_left = left.min(running) as f64 + (rounds_left - 1) as f64 * running as f64;
    let remaining = deadline
        .saturating_duration_since(Instant::now())
        .as_secs_f64();
    let seconds = remaining * TIMED_SHARE / slices_left.max(1.0);
    if let Some(rate) = budget.write_back
        && subject.leaves_dirty_bytes()
    {
        let affordable = rate * seconds / (subject.key().bytes.max(1) as f64);
        commits = commits.min(affordable as u64).max(1);
    }
    Some(Limit {
        commits,
        time: Some(Duration::from_secs_f64(seconds)),
    })
}

fn describe(key: &RowKey) -> String {
    match key.file_state {
        Some(state) if key.threads == 1 => format!("{} on a {state} file", key.method),
        Some(_) => {
            let (n, bytes) = (key.threads, logforce_terminal::numbers::bytes(key.bytes));
            format!("{}, {n} × {bytes} in flight", key.method)
        }
        None => format!(
            "the log, {}, {} committing {}",
            key.method,
            key.threads,
            logforce_terminal::numbers::bytes(key.bytes)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::counters::NoCounters;
    use crate::run::subject::SubjectKind;
    use logforce_device::{Guarantee, Method, Source, Verdict};
    use logforce_terminal::progress::Silent;
    use std::cell::RefCell;

    struct Fake {
        key: RowKey,
        assessment: Assessment,
        log: Rc<RefCell<Vec<u64>>>,
        fail_at: Option<u64>,
    }

    impl Subject for Fake {
        fn key(&self) -> &RowKey {
            &self.key
        }
        fn assessment(&self) -> &Assessment {
            &self.assessment
        }
        fn run(&mut self, limit: &Limit, recorder: &mut Recorder) -> Result<(), MeasureError> {
            self.log.borrow_mut().push(self.key.bytes);
            let mut n = recorder.commits();
            recorder.timed(|laps| {
                while laps.more(limit) {
                    if self.fail_at == Some(n) {
                        return Err(MeasureError::NotOffered("planted".to_owned()));
                    }
                    laps.commit();
                    n += 1;
                }
                Ok(())
            })
        }
    }

    fn key(bytes: u64) -> RowKey {
        RowKey {
            scenario: "test",
            subject: SubjectKind::Raw,
            method: Method::Fsync,
            file_state: None,
            threads: 1,
            bytes,
        }
    }

    fn row(id: u64, log: &Rc<RefCell<Vec<u64>>>, fail_at: Option<u64>) -> Planned {
        let assessment =
            Assessment::new(Guarantee::PowerLoss, Verdict::Declared, Source::Device, "");
        Planned::Run(Box::new(Fake {
            key: key(id),
            assessment,
            log: Rc::clone(log),
            fail_at,
        }))
    }

    fn context() -> Context {
        Context {
            interrupt: Interrupt::new(),
            counters: Rc::new(NoCounters),
            progress: Rc::new(Silent),
        }
    }

    fn budget(rounds: u32, commits: u64) -> Budget {
        Budget {
            rounds,
            commits,
            deadline: None,
            each_once: true,
            write_back: None,
        }
    }

    #[test]
    fn rounds_are_interleaved_and_complete() {
        let log = Rc::default();
        let planned = vec![row(1, &log, None), row(2, &log, None)];
        let (rows, interrupted) = run(planned, budget(2, 7), &context());
        assert!(!interrupted);
        assert_eq!(*log.borrow(), [1, 2, 2, 1]);
        assert!(
            rows.iter()
                .all(|r| r.recorder.commits() == 7 && r.error.is_none())
        );
    }

    #[test]
    fn a_failed_row_stops_and_says_after_how_much() {
        let log = Rc::default();
        let planned = vec![
            row(1, &log, Some(5)),
            row(2, &log, None),
            Planned::NotOffered {
                key: key(3),
                reason: "not here".to_owned(),
            },
        ];
        let (rows, _) = run(planned, budget(3, 9), &context());
        let errors: Vec<_> = rows.iter().map(|r| r.error.as_deref()).collect();
        assert_eq!(
            errors,
            [Some("planted (after 5 commits)"), None, Some("not here")]
        );
        assert_eq!(rows[1].recorder.commits(), 9);
    }

    #[test]
    fn past_the_deadline_each_row_still_gets_one_commit() {
        let log = Rc::default();
        let planned = vec![row(1, &log, None), row(2, &log, None)];
        let late = Budget {
            deadline: Some(Instant::now()),
            ..budget(4, 1000)
        };
        let (rows, _) = run(planned, late, &context());
        assert!(rows.iter().all(|r| r.recorder.commits() == 1), "{:?}", log);
        let strictly = Budget {
            each_once: false,
            ..late
        };
        let planned = vec![row(1, &log, None)];
        let (rows, _) = run(planned, strictly, &context());
        assert_eq!(
            rows[0].error.as_deref(),
            Some("no commit in the available time")
        );
    }

    #[test]
    fn an_interrupt_keeps_what_there_is() {
        let context = context();
        context.interrupt.raise();
        let log = Rc::default();
        let (rows, interrupted) = run(vec![row(1, &log, None)], budget(2, 3), &context);
        assert!(interrupted);
        assert!(rows[0].error.as_deref().unwrap().contains("interrupted"));
    }
}
