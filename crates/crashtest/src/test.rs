//! Runs a test, part by part.

use crate::acks::Acks;
use crate::explain::explain;
use crate::live;
use crate::parts::{Part, Rehearsal};
use crate::plan::Plan;
use crate::report::{Loss, Report, Row, Verdict, untested};
use crate::stage::{Case, Checked, Stage};
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
    fn add(
        &mut self,
        filesystem: Filesystem,
        part: Part,
        of: u64,
        case: Case<'_, '_>,
    ) -> Result<bool> {
        let is_this = |r: &Row| (r.filesystem, r.part) == (filesystem, part);
        let at = match self.rows.iter().position(is_this) {
            Some(at) => at,
            None => {
                self.rows.push(Row::new(filesystem, part));
                self.rows.len() - 1
            }
        };
        let row = &mut self.rows[at];
        row.add(case.promised.acked.len(), &case.checked);
        let (checks, failed) = (row.checks, row.failed());
        // The disk without flushes often destroys the filesystem, which says nothing about the check.
        let examined = match part {
            Part::Control if checks < MOST_CONTROL => checks - row.filesystem_lost,
            _ => checks,
        };
        if let Checked::Failed(failure, message) = &case.checked
            && part != Part::Control
        {
            let acked = &case.promised.acked;
            let loss = Loss::new(filesystem, part, *failure, message, acked);
            self.loss(loss, &case)?;
        }
        (self.progress)(Progress::Checked {
            filesystem,
            part,
            done: checks,
            of,
            failed,
        });
        Ok(examined < of)
    }

    /// Returns the number of checks in a part.
    fn checks(&self, filesystem: Filesystem, part: Part) -> u64 {
        let mut rows = self.rows.iter();
        let row = rows.find(|r| (r.filesystem, r.part) == (filesystem, part));
        row.map_or(0, |row| row.checks)
    }

    /// Adds a loss to those that are like it, and keeps the smallest of them.
    fn loss(&mut self, loss: Loss, case: &Case<'_, '_>) -> Result<()> {
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
fn keep(dir: &Path, case: &Case<'_, '_>, loss: &Loss, plan: &Plan) -> Result<()> {
    fs::create_dir_all(dir)?;
    let image = File::create(dir.join("image"))?;
    (case.left)()?.write_sparse(&image)?;
    crate::program::write_lines(&dir.join("acked"), &case.promised.acked)?;
    crate::program::write_lines(&dir.join("begun"), &case.promised.begun)?;
    let options = loss.filesystem.options();
    // As the next boot does.
    let repair = match loss.filesystem {
        Filesystem::Ext4NoJournal => "e2fsck -f -y \"$work/image\" || [ $? = 1 ]\n",
        _ => "",
    };
    let message = loss.message.replace(['\n', '\r'], " ");
    let (filesystem, acked, check) = (loss.filesystem, loss.acked, plan.check.line());
    // The paths replace the placeholders as text, as they do in the test: a check may have them within quotes.
    let script = format!(
        r#"#!/bin/sh
# Mounts a copy of the image as the next boot would, and runs the check. Needs root.
# {filesystem} after {acked} acknowledgements: {message}
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d /tmp/crashtest.XXXXXX)
trap 'umount "$work/mnt" 2>/dev/null || true; rm -rf "$work"' EXIT
cp --sparse=always "$here/image" "$work/image"
cp "$here/acked" "$here/begun" "$work"
mkdir "$work/mnt"
{repair}mount -o loop,{options} "$work/image" "$work/mnt"
export CRASHTEST_DIR="$work/mnt/data" CRASHTEST_ACKED="$work/acked" CRASHTEST_BEGUN="$work/begun"
sed "s|{{acked}}|$work/acked|g; s|{{}}|$work/mnt/data|g" > "$work/check" << 'END OF CHECK'
{check}
END OF CHECK
status=0
sh "$work/check" < "$work/acked" || status=$?
echo "the check exited with $status"
exit $status
"#
    );
    Ok(fs::write(dir.join("check.sh"), script)?)
}

/// Runs a test inside the enclosure. `home` is its directory for mount points.
///
/// # Errors
/// Errors of the machine, and if the setup fails. A program that cannot be tested is a verdict.
pub fn run(plan: &Plan, home: &Path, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Report> {
    let began = Instant::now();
    if let Some(dir) = &plan.keep {
        // Found out before the first loss, which may come after minutes.
        fs::create_dir_all(dir)
            .with_context(|| format!("cannot keep cases in {}", dir.display()))?;
    }
    let acks = Acks::serve(home)?;
    let mut results = Results {
        plan,
        rows: Vec::new(),
        losses: Vec::new(),
        progress,
    };
    let (mut rehearsals, mut notes, mut reasons) = (Vec::new(), Vec::new(), Vec::new());
    let mut explanation = None;
    for &filesystem in &plan.filesystems {
        let mut stage = Stage::new(plan, filesystem, home, &acks)?;
        let rehearsed = stage.rehearse(&mut |case| results.add(filesystem, Part::Kill, 1, case))?;
        let rehearsal = match rehearsed {
            Ok(rehearsal) => rehearsal,
            Err(why) => {
                reasons.push(format!("{filesystem}: {why}"));
                continue;
            }
        };
        parts(&stage, &rehearsal, &mut results)?;
        let runs = stage.runs.take();
        let remarks = runs.remarks(stage.template.len());
        let remarks = remarks.iter().map(|r| format!("{filesystem}: {r}"));
        match runs.are_spoilt() {
            true => reasons.extend(remarks),
            false => notes.extend(remarks),
        }
        if plan.explain
            && explanation.is_none()
            && let Some((part, rate)) = most_lost(&results.rows, filesystem)
        {
            let told = &mut *results.progress;
            let mut doing = |what: &str| told(Progress::Explaining(what));
            explanation = Some(explain(&mut stage, &rehearsal, part, rate, &mut doing)?);
        }
        if results.checks(filesystem, Part::States) < plan.states {
            reasons.push(format!(
                "{filesystem}: no more states could be built, because the workload writes nothing to the disk"
            ));
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
        notes,
        reasons,
        untested: untested(plan),
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
            live::cuts(
                stage,
                &rehearsal.cuts(part),
                plan.seed ^ part as u64,
                &mut |case| results.add(filesystem, part, of, case),
            )?;
        }
    }
    if plan.states > 0 {
        let of = plan.states;
        states::states(stage, &rehearsal.recordings(), plan.seed, &mut |case| {
            results.add(filesystem, Part::States, of, case)
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

/// Returns the verdict, and a sentence that says it.
fn verdict(rows: &[Row], reasons: &[String]) -> (Verdict, String) {
    let sum = |part, number: fn(&Row) -> u64| -> u64 {
        let rows = rows.iter().filter(|r| r.part == part);
        rows.map(number).sum()
    };
    let checks = |part| sum(part, |r| r.checks);
    let failed = |part| sum(part, Row::failed);
    let (cuts, states) = (checks(Part::Cuts), checks(Part::States));
    let (lost_by_kill, lost) = (
        failed(Part::Kill),
        (failed(Part::Cuts), failed(Part::States)),
    );
    if lost_by_kill + lost.0 + lost.1 > 0 {
        let kill = match lost_by_kill {
            0 => "",
            _ => ", and after kill -9 without a power cut",
        };
        let real = [Part::Kill, Part::Cuts, Part::States];
        let early: u64 = real
            .map(|part| sum(part, |r| r.failed_without_acks))
            .iter()
            .sum();
        let early = match early {
            0 => String::new(),
            n => format!(" Before {n} of these checks nothing had been acknowledged."),
        };
        let (in_cuts, in_states) = lost;
        let sentence = format!(
            "The check failed after {in_cuts} of {cuts} power cuts and in {in_states} of {states} crash states{kill}.{early}"
        );
        return (Verdict::Lost, sentence);
    }
    if !reasons.is_empty() || cuts + states == 0 {
        return (
            Verdict::Inconclusive,
            "This test proves nothing.".to_owned(),
        );
    }
    let sentence =
        format!("{cuts} power cuts and {states} crash states lost nothing that was acknowledged.");
    (Verdict::Survived, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(part: Part, checks: u64, lost: u64) -> Row {
        Row {
            checks,
            with_acks: checks,
            lost,
            ..Row::new(Filesystem::Ext4, part)
        }
    }

    #[test]
    fn what_proves_nothing_is_not_a_success() {
        let of = |rows: &[Row]| verdict(rows, &doubts(rows)).0;
        let (cuts, control) = (row(Part::Cuts, 30, 0), row(Part::Control, 5, 4));
        assert_eq!(of(&[control.clone(), cuts.clone()]), Verdict::Survived);
        assert_eq!(
            of(&[row(Part::Control, 5, 0), cuts.clone()]),
            Verdict::Inconclusive,
            "blind"
        );
        let early = Row {
            with_acks: 3,
            ..cuts.clone()
        };
        assert_eq!(
            of(&[control.clone(), early]),
            Verdict::Inconclusive,
            "too few"
        );
        assert_eq!(
            of(std::slice::from_ref(&control)),
            Verdict::Inconclusive,
            "no cut"
        );
        assert_eq!(
            of(&[control.clone(), row(Part::Cuts, 30, 1)]),
            Verdict::Lost
        );
        assert_eq!(of(&[row(Part::Kill, 1, 1), control, cuts]), Verdict::Lost);
    }
}
