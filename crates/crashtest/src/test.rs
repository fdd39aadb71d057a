//! Runs a test, part by part.

use crate::acks::Acks;
use crate::explain::explain;
use crate::kept;
use crate::live;
use crate::parts::{Part, Rehearsal};
use crate::plan::Plan;
use crate::report::{Loss, Report, Row};
pub use crate::results::Progress;
use crate::results::Results;
use crate::stage::{Case, Promised, Stage};
use crate::states::{self, copy};
use crate::subject::{Outcome, Subject};
use crate::testbed::Filesystem;
use crate::verdict::finished;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::path::Path;
use std::time::Instant;

/// Cuts of the disk that ignores flushes. Nearly every program loses something in each.
const CONTROL: u64 = 5;

/// Writes a case into a directory, with a script that mounts it and runs the check.
fn keep(dir: &Path, case: &Case<'_, '_>, loss: &Loss, plan: &Plan) -> Result<()> {
    let image = File::create(dir.join("image"))?;
    (case.left)()?.write_sparse(&image)?;
    let options = loss.filesystem.options();
    let repair = match loss.filesystem {
        Filesystem::Ext4NoJournal => "e2fsck -f -y \"$work/image\" || [ $? = 1 ]\n",
        _ => "",
    };
    let prepare = format!(
        "# Mounts the image as the next boot would. Needs root.\ncp --sparse=always \"$here/image\" \"$work/image\"\n\
         mkdir \"$work/mnt\"\n{repair}mount -o loop,{options} \"$work/image\" \"$work/mnt\""
    );
    let lines = (case.promised.acked.clone(), case.promised.begun.clone());
    kept::write(dir, &lines, loss, plan, &prepare, "mnt/data")
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
    let mut results = Results::new(plan, progress);
    let mut report = Report::new(plan);
    let mut check_is_broken = false;
    for &filesystem in &plan.filesystems {
        let mut stage = Stage::new(plan, filesystem, home, &acks)?;
        let mut left = None;
        let rehearsed = stage.rehearse(&mut |case| {
            if case.checked.is_whole() {
                left = Some((copy((case.left)()?)?, case.promised.clone()));
            }
            take(&mut results, filesystem, Part::Kill, 1, &case)
        })?;
        let rehearsal = match rehearsed {
            Ok(rehearsal) => rehearsal,
            Err(why) => {
                report.reasons.push(format!("{filesystem}: {why}"));
                continue;
            }
        };
        if let Some((image, promised)) = left
            && let Some(why) = stage.is_blind(&image, &promised)?
        {
            report.reasons.push(format!("{filesystem}: {why}"));
        }
        parts(&stage, &rehearsal, &mut results)?;
        let runs = stage.runs.take();
        let remarks = runs.remarks(stage.template.len());
        let remarks = remarks.iter().map(|r| format!("{filesystem}: {r}"));
        match runs.are_spoilt() {
            true => report.reasons.extend(remarks),
            false => report.notes.extend(remarks),
        }
        if results.passed(filesystem) == 0 {
            check_is_broken |= broken(&stage, &mut report)?;
        }
        report.notes.extend(results.early(filesystem));
        if plan.explain
            && !check_is_broken
            && report.explanation.is_none()
            && let Some((part, rate)) = most_lost(&results.rows, filesystem)
        {
            let told = &mut *results.progress;
            let mut doing = |what: &str| told(Progress::Explaining(what));
            let found = explain(&mut stage, &rehearsal, part, rate, &mut doing)?;
            report.explanation = Some(found);
        }
        if results.checks(filesystem, Part::States) < plan.states {
            report.reasons.push(format!(
                "{filesystem}: no more states could be built, because the workload writes nothing to the disk"
            ));
        }
        report.rehearsals.push(rehearsal);
    }
    Ok(finished(
        report,
        results.rows,
        results.losses,
        check_is_broken,
        began.elapsed(),
    ))
}

/// Runs the check on the directory as it is before the first session. Returns true, and adds the reason, if it fails:
/// nothing is acknowledged, so it never succeeds.
fn broken(stage: &Stage<'_>, report: &mut Report) -> Result<bool> {
    let checked = stage
        .check_image(&copy(&stage.template)?, &Promised::default())?
        .0;
    let reason = checked.never_succeeds();
    let reasons = reason.iter();
    report
        .reasons
        .extend(reasons.map(|why| format!("{}: {why}", stage.filesystem)));
    Ok(reason.is_some())
}

/// Returns the part in which the filesystem lost most after acknowledgements, and the share of its checks that did.
fn most_lost(rows: &[Row], filesystem: Filesystem) -> Option<(Part, f64)> {
    let failed = |r: &Row| r.failed() - r.failed_without_acks;
    let rows = rows
        .iter()
        .filter(|r| r.filesystem == filesystem && failed(r) > 0);
    let rates = rows.filter(|r| matches!(r.part, Part::Cuts | Part::States));
    let rates = rates.map(|r| (r.part, failed(r) as f64 / r.with_acks as f64));
    rates.max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Takes a case in; returns false if its part has enough.
fn take(
    results: &mut Results<'_>,
    filesystem: Filesystem,
    part: Part,
    of: u64,
    case: &Case<'_, '_>,
) -> Result<bool> {
    let plan = results.plan;
    let keep = |dir: &Path, loss: &Loss| keep(dir, case, loss, plan);
    let acked = &case.promised.acked;
    results.add((filesystem, part), of, acked, &case.checked, &keep)
}

fn parts(stage: &Stage<'_>, rehearsal: &Rehearsal, results: &mut Results<'_>) -> Result<()> {
    let (plan, filesystem) = (stage.plan, stage.filesystem);
    for (part, of) in [(Part::Control, CONTROL), (Part::Cuts, plan.cuts)] {
        if of > 0 {
            live::cuts(
                stage,
                &rehearsal.cuts(part),
                plan.seed ^ part as u64,
                &mut |case| take(results, filesystem, part, of, &case),
            )?;
        }
    }
    if plan.states > 0 {
        let of = plan.states;
        states::states(stage, &rehearsal.recordings(of), plan.seed, &mut |case| {
            take(results, filesystem, Part::States, of, &case)
        })?;
    }
    Ok(())
}
