//! Runs a test, part by part.

use crate::acks::Acks;
use crate::explain::explain;
use crate::live::{self, Case};
use crate::parts::{Part, Rehearsal};
use crate::plan::Plan;
use crate::report::{Loss, Report, Row, Verdict};
use crate::stage::{Checked, Stage};
use crate::states;
use crate::testbed::Filesystem;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::path::Path;
use std::time::Instant;

/// Cuts of the disk that ignores flushes. Nearly every program loses something in each.
const CONTROL: u64 = 5;
/// Cuts of that disk after which no more are tried, if its filesystem is destroyed again and again.
const MOST_CONTROL: u64 = 40;
/// Checks with acknowledgements, as a share of all, below which the test proves nothing.
const ENOUGH: f64 = 0.5;

/// Progress of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress<'a> {
    /// A check was done.
    Checked {
        /// The filesystem.
        filesystem: Filesystem,
        /// The part.
        part: Part,
        /// Checks done of this part.
        done: u64,
        /// Checks to do in this part.
        of: u64,
        /// Checks of this part that failed.
        failed: u64,
    },
    /// The cause of losses is looked for, at this step.
    Explaining(&'a str),
}

/// Collects the cases of a test.
struct Results<'a> {
    plan: &'a Plan,
    rows: Vec<Row>,
    losses: Vec<Loss>,
    progress: &'a mut dyn FnMut(Progress<'_>),
}

impl Results<'_> {
    /// Takes a case in; returns false if its part has enough.
    fn add(&mut self, filesystem: Filesystem, of: u64, case: Case<'_>) -> Result<bool> {
        let is_this = |r: &Row| (r.filesystem, r.part) == (filesystem, case.part);
        let at = match self.rows.iter().position(is_this) {
            Some(at) => at,
            None => {
                self.rows.push(Row::new(filesystem, case.part));
                self.rows.len() - 1
            }
        };
        let row = &mut self.rows[at];
        row.add(case.promised.acked.len(), &case.checked);
        let (checks, failed) = (row.checks, row.failed());
        // The disk without flushes often destroys the filesystem, which says nothing about the check.
        let examined = match case.part {
            Part::Control if checks < MOST_CONTROL => checks - row.filesystem_lost,
            _ => checks,
        };
        if let Checked::Failed(failure, message) = &case.checked
            && case.part != Part::Control
        {
            let acked = &case.promised.acked;
            let loss = Loss::new(filesystem, case.part, *failure, message, acked);
            self.loss(loss, &case)?;
        }
        (self.progress)(Progress::Checked {
            filesystem,
            part: case.part,
            done: checks,
            of,
            failed,
        });
        Ok(examined < of)
    }

    fn loss(&mut self, loss: Loss, case: &Case<'_>) -> Result<()> {
        let number = self.losses.iter().position(|known| known.is_like(&loss));
        let at = number.unwrap_or(self.losses.len());
        match number {
            None => self.losses.push(loss),
            Some(at) => {
                let known = &mut self.losses[at];
                known.cases += 1;
                if known.acked <= loss.acked {
                    return Ok(());
                }
                let cases = known.cases;
                *known = loss;
                known.cases = cases;
            }
        }
        if let Some(dir) = &self.plan.keep {
            let dir = dir.join(format!("loss-{}", at + 1));
            let kept = keep(&dir, case, &self.losses[at], self.plan);
            kept.with_context(|| format!("keeping a case in {}", dir.display()))?;
            self.losses[at].kept = Some(dir.display().to_string());
        }
        Ok(())
    }
}

/// Writes a case into a directory, with a script that mounts it and runs the check.
fn keep(dir: &Path, case: &Case<'_>, loss: &Loss, plan: &Plan) -> Result<()> {
    fs::create_dir_all(dir)?;
    let image = File::create(dir.join("image"))?;
    case.left.write_sparse(&image)?;
    crate::program::write_lines(&dir.join("acked"), &case.promised.acked)?;
    crate::program::write_lines(&dir.join("begun"), &case.promised.begun)?;
    let options = loss.filesystem.options();
    let check = plan
        .check
        .shown()
        .replace("{acked}", "\"$CRASHTEST_ACKED\"");
    let check = check.replace("{}", "\"$CRASHTEST_DIR\"");
    let script = format!(
        "#!/bin/sh\n\
         # Mounts a copy of the image as the next boot would, and runs the check. Needs root.\n\
         # {} after {} acknowledgements: {}\n\
         set -eu\n\
         here=$(cd \"$(dirname \"$0\")\" && pwd)\n\
         work=$(mktemp -d)\n\
         trap 'umount \"$work/mnt\" 2>/dev/null || true; rm -rf \"$work\"' EXIT\n\
         cp --sparse=always \"$here/image\" \"$work/image\"\n\
         mkdir \"$work/mnt\"\n\
         mount -o loop,{options} \"$work/image\" \"$work/mnt\"\n\
         export CRASHTEST_DIR=\"$work/mnt/data\" CRASHTEST_ACKED=\"$here/acked\" CRASHTEST_BEGUN=\"$here/begun\"\n\
         status=0\n\
         ( {check} ) < \"$here/acked\" || status=$?\n\
         echo \"the check exited with $status\"\n\
         exit $status\n",
        loss.filesystem,
        loss.acked,
        loss.message.replace(['\n', '\r'], " "),
    );
    Ok(fs::write(dir.join("check.sh"), script)?)
}

/// Runs a test inside the enclosure. `home` is its directory for mount points.
///
/// # Errors
/// Those of the machine, and if the setup fails. A program that cannot be tested is a verdict.
pub fn run(plan: &Plan, home: &Path, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Report> {
    let began = Instant::now();
    let acks = Acks::serve(home)?;
    let mut results = Results {
        plan,
        rows: Vec::new(),
        losses: Vec::new(),
        progress,
    };
    let (mut rehearsals, mut reasons) = (Vec::new(), Vec::new());
    let mut explanation = None;
    for &filesystem in &plan.filesystems {
        let mut stage = Stage::new(plan, filesystem, home, &acks)?;
        let rehearsed = live::rehearse(&stage, &mut |case| results.add(filesystem, 1, case))?;
        let rehearsal = match rehearsed {
            Ok(rehearsal) => rehearsal,
            Err(why) => {
                reasons.push(format!("{filesystem}: {why}"));
                continue;
            }
        };
        parts(&stage, &rehearsal, &mut results)?;
        if plan.explain
            && explanation.is_none()
            && let Some((part, rate)) = most_lost(&results.rows, filesystem)
        {
            let told = &mut *results.progress;
            let mut doing = |what: &str| told(Progress::Explaining(what));
            explanation = Some(explain(&mut stage, &rehearsal, part, rate, &mut doing)?);
        }
        rehearsals.push(rehearsal);
    }
    reasons.extend(doubts(&results.rows));
    results.losses.sort_by_key(|l| std::cmp::Reverse(l.cases));
    let (verdict, sentence) = verdict(&results.rows, &reasons);
    Ok(Report {
        schema: "logforce-crashtest",
        version: 1,
        verdict,
        sentence,
        plan: plan.clone(),
        rehearsals,
        rows: results.rows,
        losses: results.losses,
        explanation,
        reasons,
        seconds: began.elapsed().as_secs_f64(),
    })
}

/// Returns the part in which the filesystem lost most, and the share of its checks that failed.
fn most_lost(rows: &[Row], filesystem: Filesystem) -> Option<(Part, f64)> {
    let rows = rows
        .iter()
        .filter(|r| r.filesystem == filesystem && r.failed() > 0);
    let rates = rows.filter(|r| matches!(r.part, Part::Cuts | Part::States));
    let rates = rates.map(|r| (r.part, r.failed() as f64 / r.checks as f64));
    rates.max_by(|a, b| a.1.total_cmp(&b.1))
}

fn parts(stage: &Stage<'_>, rehearsal: &Rehearsal, results: &mut Results<'_>) -> Result<()> {
    let (plan, filesystem) = (stage.plan, stage.filesystem);
    for (part, of) in [(Part::Control, CONTROL), (Part::Cuts, plan.cuts)] {
        if of > 0 {
            live::cuts(stage, rehearsal, part, &mut |case| {
                results.add(filesystem, of, case)
            })?;
        }
    }
    if plan.states > 0 {
        let of = plan.states;
        states::states(stage, rehearsal, &mut |case| {
            results.add(filesystem, of, case)
        })?;
    }
    Ok(())
}

/// Returns why a test without losses proves nothing.
fn doubts(rows: &[Row]) -> Vec<String> {
    let mut doubts = Vec::new();
    for row in rows {
        let (filesystem, part) = (row.filesystem, row.part.name());
        if row.part == Part::Control && row.failed() == 0 {
            doubts.push(format!(
                "{filesystem}: the check noticed nothing in {} cuts of a disk that ignores flushes, after up to {} \
                 acknowledgements; either it does not look at what was acknowledged, or the workload writes past \
                 every cache",
                row.checks - row.filesystem_lost, row.most_acked
            ));
        }
        let share = row.with_acks as f64 / row.checks.max(1) as f64;
        if matches!(row.part, Part::Cuts | Part::States) && share < ENOUGH {
            doubts.push(format!(
                "{filesystem}: only {} of {} {part} came after an acknowledgement",
                row.with_acks, row.checks
            ));
        }
    }
    doubts
}

fn verdict(rows: &[Row], reasons: &[String]) -> (Verdict, String) {
    let real = || rows.iter().filter(|r| r.part != Part::Control);
    let failed: u64 = real().map(Row::failed).sum();
    let count = |part| -> u64 {
        rows.iter()
            .filter(|r| r.part == part)
            .map(|r| r.checks)
            .sum()
    };
    let volume = format!(
        "{} power cuts and {} crash states",
        count(Part::Cuts),
        count(Part::States)
    );
    if failed > 0 {
        let by_kill: u64 = real()
            .filter(|r| r.part == Part::Kill)
            .map(Row::failed)
            .sum();
        let kill = match by_kill {
            0 => "",
            _ => ", and even without a power cut, after kill -9",
        };
        let sentence = format!("Acknowledged data was lost: in {failed} of {volume}{kill}.");
        return (Verdict::Lost, sentence);
    }
    if !reasons.is_empty() || count(Part::Cuts) + count(Part::States) == 0 {
        return (
            Verdict::Inconclusive,
            "This test proves nothing.".to_owned(),
        );
    }
    let sentence = format!("{volume} lost nothing of what was acknowledged.");
    (Verdict::Survived, sentence)
}
