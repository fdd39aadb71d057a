//! Live cuts: the power goes while the program works, starts, or recovers.

use crate::disk::{Command, Cut, Flushes, Settings, Survival};
use crate::outage::{Disks, Outage};
use crate::subject::{Case, Outcome, Session, Sink, Subject};
use crate::testbed::Image;
use anyhow::{Context, Result};
use std::ops::Range;

/// Volume and odds of live cuts.
#[derive(Debug, Clone)]
pub struct Cuts {
    /// Effect of flushes.
    pub flushes: Flushes,
    /// Percentages of writes that the disk holds in flight; each session has one of them.
    pub holds: &'static [u64],
    /// Sizes in bytes of the pieces into which a cut tears writes; each cut has one of them.
    pub grains: &'static [u64],
    /// Sessions on one disk, before a fresh one is taken.
    pub chain: u64,
    /// One in this number of sessions is cut early; the first of a chain never is.
    pub early_in: u64,
    /// Moments of early cuts: during the mount, the start, the recovery.
    pub early: Vec<Moment>,
    /// Moments of the other cuts.
    pub work: Vec<Moment>,
}

/// Range of moments from which that of a cut is chosen.
#[derive(Debug, Clone)]
pub struct Moment {
    /// Largest number of writes after which the power goes.
    pub writes: u64,
    /// Milliseconds after which it goes at the latest.
    pub millis: Range<u64>,
    /// One in this number of cuts comes during any write; the others wait for one that finds unflushed data.
    pub any_write: u64,
}

/// When the power goes, and what survives.
struct Choice {
    command: Command,
    survival: Survival,
    /// True if the disk gets the command before it is mounted.
    early: bool,
}

impl Cuts {
    /// Chooses the cut of session number `session` of a chain, counted from 0.
    fn choose(&self, session: u64, rng: &mut fastrand::Rng) -> Result<Choice> {
        let early = session > 0 && rng.u64(..self.early_in) == 0;
        let moments = if early { &self.early } else { &self.work };
        let moment = rng.choice(moments).context("no moments")?;
        let survival = Survival {
            seed: rng.u64(..),
            grain: rng.choice(self.grains).copied().context("no grains")?,
            keep: rng.choice([0, 0, 20, 50, 80]).unwrap_or(0),
        };
        let command = Command::CutAfter {
            writes: rng.u64(1..=moment.writes),
            millis: rng.u64(moment.millis.clone()),
            loaded: rng.u64(..moment.any_write) != 0,
            cut: Cut { survival },
        };
        Ok(Choice {
            command,
            survival,
            early,
        })
    }
}

/// Cuts the power again and again, until the sink has enough.
///
/// # Errors
/// Errors of the machine and of the sink.
pub fn cuts<S: Subject>(subject: &S, plan: &Cuts, seed: u64, sink: &mut Sink<'_, S>) -> Result<()> {
    let template = subject.site().template;
    let mut disks = Disks::new(template.len())?;
    let mut scratch = Image::new(template.len())?;
    let mut rng = fastrand::Rng::with_seed(seed);
    loop {
        disks.stable.copy_from(template)?;
        let mut promised = S::Promised::default();
        for session in 0..plan.chain {
            let choice = plan.choose(session, &mut rng)?;
            let outage = Outage {
                disks: &disks,
                record: None,
                settings: Settings {
                    flushes: plan.flushes,
                    ..Settings::honest(rng.u64(..), rng.choice(plan.holds).copied().unwrap_or(0))
                },
                cut: choice.command,
                early: choice.early,
                seed: rng.u64(..),
            };
            let (report, wrong) = outage.run(subject, &promised)?;
            let entries = subject.entries()?;
            let claims = Session::live(&entries, &report.counters);
            subject.promise(&mut promised, &claims);
            scratch.copy_from(&disks.stable)?;
            let (checked, shown) = subject.check_image(&scratch, &promised)?;
            let is_whole = checked.is_whole() && wrong.is_none();
            let go_on = sink(Case {
                promised: &promised,
                checked,
                wrong,
                met: report.met,
                grain: choice.survival.grain,
                left: &|| Ok(&disks.stable),
                origin: None,
            })?;
            if !go_on {
                return Ok(());
            }
            if !is_whole {
                break;
            }
            // Half of the sessions start from what the check recovered undisturbed. The others recover by themselves,
            // and their power is cut too, perhaps meanwhile.
            if rng.bool() {
                std::mem::swap(&mut disks.stable, &mut scratch);
                promised = shown.unwrap_or(promised);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_after_the_first_are_cut_early_now_and_then() {
        let moment = |writes| Moment {
            writes,
            millis: 1..2,
            any_write: 1,
        };
        let cuts = Cuts {
            flushes: Flushes::Honest,
            holds: &[0],
            grains: &[512],
            chain: 2,
            early_in: 2,
            early: vec![moment(1)],
            work: vec![moment(u64::MAX)],
        };
        let mut rng = fastrand::Rng::with_seed(1);
        let mut early = |session| {
            let choices = (0..100).map(|_| cuts.choose(session, &mut rng).unwrap());
            choices
                .filter(|c| {
                    // Only an early cut has the early moment.
                    let first = matches!(c.command, Command::CutAfter { writes: 1, .. });
                    assert_eq!(c.early, first);
                    first
                })
                .count()
        };
        assert_eq!(early(0), 0);
        assert!((20..80).contains(&early(1)));
    }
}
