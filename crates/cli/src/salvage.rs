//! `logforce salvage`.

use crate::directory;
use crate::exit::{End, Usage};
use crate::log_args::{DamageInfo, metadata, unknown_bounds};
use crate::output::{Sink, Target, complain, print};
use crate::progress::Bar;
use anyhow::{Context, bail};
use logforce::{
    Error, ErrorKind, Guarantee, Log, Lsn, Options, Record, Refused, Verdict,
    inspect::{BatchInfo, Damage, Inspector, LogSummary, RecoveryCase, Visit},
};
use logforce_terminal::numbers::{bytes, count};
use logforce_terminal::progress::Progress;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Largest number of damaged places that are reported one by one.
const TOLD: usize = 10_000;

const MORE: &str = "\
Copies all readable records of SRC, in their order, into a new log, even if the control file is lost, a
segment is missing or the middle is damaged. SRC is only read. Records get new LSNs; --map lists them. NEW
appears only when everything is in it and forced. Until then it is NEW.partial, which a killed salvage
leaves behind and which you must remove.

Records that truncate_back voided, and atomic appends that are not whole, do not belong to SRC and are not
saved. Records that a repair removed do not belong to SRC either: salvage the copy that the repair kept.

From a segment with a damaged header, salvage reads the batches whose own headers say that they belong to
this log and to this place.

Without a usable control file it is unknown where SRC begins and ends. Records below and above the
segments found may be missing, and records that truncate_front dropped may be saved again.

Exit status: 0 all of SRC was saved, 1 something is missing or may be (the report says what), 2 unusable
arguments, 4 failed: nothing was saved.";

/// Saves what can be read.
#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub struct Args {
    /// The damaged log's directory; nothing in it is locked or changed
    #[arg(value_name = "SRC")]
    src: PathBuf,
    /// The directory of the new log; it must not exist
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// Accept a NEW that survives less than a loss of power: process-crash, os-crash
    #[arg(long, value_name = "GUARANTEE", value_parser = parse_guarantee, default_value = "power-loss")]
    require: Guarantee,
    /// Accept a NEW whose guarantee has a lower verdict: unknown
    #[arg(long, value_name = "VERDICT", value_parser = parse_verdict, default_value = "declared")]
    require_verdict: Verdict,
    /// Write the LSNs of each record, in SRC and in NEW, as CSV to FILE; - is standard output
    #[arg(long, value_name = "FILE")]
    map: Option<Target>,
    /// Write the report as JSON to FILE; - is standard output
    #[arg(long, value_name = "FILE")]
    json: Option<Target>,
}

/// Parses the name of a guarantee, except `Nothing`.
pub fn parse_guarantee(text: &str) -> Result<Guarantee, String> {
    let all = [
        Guarantee::ProcessCrash,
        Guarantee::OsCrash,
        Guarantee::PowerLoss,
    ];
    let known = all.into_iter().find(|g| g.to_string() == text);
    known.ok_or_else(|| {
        format!("unknown guarantee '{text}': use process-crash, os-crash or power-loss")
    })
}

/// Parses the name of a verdict.
fn parse_verdict(text: &str) -> Result<Verdict, String> {
    let all = [Verdict::Unknown, Verdict::Declared, Verdict::Proven];
    let known = all.into_iter().find(|v| v.name() == text);
    known.ok_or_else(|| format!("unknown verdict '{text}': use unknown, declared or proven"))
}

#[derive(Debug, Default, Serialize)]
struct Report {
    schema: &'static str,
    version: u32,
    src: String,
    new: String,
    log_id: String,
    /// True if NEW has everything that SRC should hold.
    complete: bool,
    /// True if the control file says where SRC begins and ends.
    bounds_known: bool,
    /// Description of what is unknown otherwise.
    #[serde(skip)]
    unknown: Option<String>,
    records: u64,
    record_bytes: u64,
    /// Number of saved records that are known to have been durable.
    proven: u64,
    /// Number of records that truncate_back voided; they are not saved.
    voided: u64,
    /// Number of whole records whose append has lost another part; they are not saved.
    parts: u64,
    metadata: Option<String>,
    metadata_saved: bool,
    damages: u64,
    damage: Vec<NotSaved>,
}

/// A damaged place, and the part of the log that is not saved because of it.
#[derive(Debug, Serialize)]
struct NotSaved {
    #[serde(flatten)]
    damage: DamageInfo,
    /// Exclusive end of what is not saved: where the next whole batch begins, or where the prepared
    /// segments end. Null if nothing is missing there, or if the extent is unknown.
    to: Option<u64>,
    /// Number of bytes of log from `lsn` to there.
    bytes: Option<u64>,
    /// True if something of the log may be missing because of it. False if only the header of a segment
    /// is damaged and its batches were read.
    missing: bool,
}

/// Extents of the log that each damaged place costs.
#[derive(Default)]
struct Extents {
    places: Vec<(Damage, Option<Lsn>)>,
    /// Index of the first place after which no whole batch was found yet.
    open: usize,
    /// Exclusive end of the last whole batch.
    end: Lsn,
    /// Files of segments that batches were read from.
    files: BTreeSet<String>,
}

impl Extents {
    fn damage(&mut self, damage: &Damage) {
        if self.places.len() < TOLD {
            self.places.push((damage.clone(), None));
        }
    }

    fn batch(&mut self, batch: &BatchInfo) {
        for (damage, to) in self.places.iter_mut().skip(self.open) {
            if damage.lsn < batch.lsn {
                *to = Some(batch.lsn);
            }
        }
        self.open = self.places.len();
        self.end = self.end.max(batch.end);
        if !self.files.contains(&batch.file) {
            self.files.insert(batch.file.clone());
        }
    }

    /// Returns all places with their extents. A place that is still open has no batch after it, or was
    /// reported after the last batch. A missing segment ends where the next one begins, or where the
    /// prepared segments end.
    fn reported(self, summary: &LogSummary) -> Vec<NotSaved> {
        let Extents {
            places, end, files, ..
        } = self;
        let info = |(damage, to): (Damage, Option<Lsn>)| {
            let is_read = damage.file.as_ref().is_some_and(|f| files.contains(f));
            let is_lost = damage.case == RecoveryCase::SegmentLost && !is_read;
            let starts = summary.segments.iter().map(|s| s.start);
            let next = starts.filter(|s| *s > damage.lsn).min();
            let to = to.or(match (is_lost, damage.lsn >= end) {
                (true, _) => Some(next.unwrap_or(summary.prepared_end)),
                // Only as far as data is known to have been durable.
                (false, true) => Some(damage.durable_to),
                (false, false) => None,
            });
            let to = to.filter(|to| *to > damage.lsn);
            NotSaved {
                missing: !(damage.case == RecoveryCase::SegmentLost && is_read && to.is_none()),
                to: to.map(|to| to.0),
                bytes: to.map(|to| to.since(damage.lsn)),
                damage: DamageInfo::from(&damage),
            }
        };
        places.into_iter().map(info).collect()
    }
}

/// The new log.
struct Made<'a> {
    log: Log,
    map: Option<csv::Writer<crate::output::Writer>>,
    report: &'a mut Report,
    /// Error that ended the salvage early.
    failed: Option<anyhow::Error>,
}

impl Made<'_> {
    /// Saves a record. Returns false if that failed.
    fn take(&mut self, record: &Record, proven: bool) -> bool {
        let taken = self.try_take(record, proven);
        self.failed = taken.err();
        self.failed.is_none()
    }

    fn try_take(&mut self, record: &Record, proven: bool) -> anyhow::Result<()> {
        let at = self.log.append(&record.data)?;
        self.report.records += 1;
        self.report.record_bytes += record.data.len() as u64;
        self.report.proven += u64::from(proven);
        if let Some(map) = &mut self.map {
            map.serialize((record.start.0, at.start.0, proven))?;
        }
        Ok(())
    }
}

/// Saves what can be read.
pub fn run(args: Args) -> anyhow::Result<End> {
    if directory::is_page_file(&args.src)? {
        bail!(Usage(format!(
            "{0} holds a page file, and `logforce salvage` saves only logs: `logforce verify {0}` lists the \
             damage; restore the file from a backup",
            args.src.display()
        )));
    }
    if args.new.symlink_metadata().is_ok() {
        bail!(Usage(format!(
            "{} exists: name a directory that does not exist",
            args.new.display()
        )));
    }
    let partial = partial(&args.new)?;
    if is_within(&args.new, &args.src) {
        bail!(Usage(format!(
            "{} lies in {}, which is only read: name a directory elsewhere",
            args.new.display(),
            args.src.display()
        )));
    }
    if args.map == Some(Target::Stdout) && args.json == Some(Target::Stdout) {
        bail!(Usage(
            "--map - and --json - both write to standard output: name a file for one of them"
                .to_owned()
        ));
    }
    let inspector = logforce::inspect::salvage(&args.src)?;
    let map = match &args.map {
        Some(target) => {
            let sink = Sink::open(target).and_then(Sink::writer);
            let mut map = csv::Writer::from_writer(sink.context("--map")?);
            map.write_record(["src_lsn", "new_lsn", "proven"])?;
            // The header is written already, so the rows come without one.
            let inner = map.into_inner().map_err(|e| e.into_error())?;
            Some(
                csv::WriterBuilder::new()
                    .has_headers(false)
                    .from_writer(inner),
            )
        }
        None => None,
    };
    let json = args.json.as_ref().map(Sink::open).transpose();
    let json = json.context("--json")?;
    let mut options = Options::new()
        .calibrate(false)
        .require(args.require)
        .require_verdict(args.require_verdict);
    // Same segment size as SRC, because the disk may be nearly full.
    if let Some(segment) = inspector.summary().segments.last() {
        options = options.segment_size(segment.len);
    }
    let log = logforce::create_new(&partial, options).map_err(|e| {
        remove(&partial);
        refused(e, &args)
    })?;
    let mut report = Report {
        schema: "logforce-salvage",
        version: 1,
        src: args.src.display().to_string(),
        new: args.new.display().to_string(),
        ..Report::default()
    };
    let made = Made {
        log,
        map,
        report: &mut report,
        failed: None,
    };
    if let Err(e) = save(&inspector, made).and_then(|()| appear(&partial, &args.new)) {
        remove(&partial);
        let e = match e.downcast() {
            Ok(e) => refused(e, &args),
            Err(e) => e,
        };
        return Err(e.context(format!("nothing was saved to {}", args.new.display())));
    }
    let on_stdout = [&args.map, &args.json].contains(&&Some(Target::Stdout));
    print(&text(&report), on_stdout)?;
    if let Some(json) = json {
        json.fill(|out| {
            serde_json::to_writer_pretty(&mut *out, &report).map_err(std::io::Error::from)?;
            out.write_all(b"\n")
        })?;
    }
    Ok(if report.complete {
        End::Done
    } else {
        End::Damaged
    })
}

/// Rewords the library's errors, which advise calls of the library, for the user of the command.
fn refused(e: Error, args: &Args) -> anyhow::Error {
    let new = &args.new;
    if let Some(source) = no_space(&e) {
        return anyhow::anyhow!(
            "there is no space for {}: {source}. Free space there, or name a NEW on another filesystem. {} was only \
             read, and is unchanged",
            new.display(),
            args.src.display()
        );
    }
    match e {
        Error::Refused(Refused::Guarantee {
            method,
            wanted,
            got,
            evidence,
            ..
        }) => anyhow::anyhow!(
            "{}: method {method} guarantees {got} there, but {wanted} is required: {evidence}. To accept less, give --require {got}",
            new.display()
        ),
        Error::Refused(Refused::Verdict {
            method,
            got,
            verdict,
            wanted,
            evidence,
            ..
        }) => anyhow::anyhow!(
            "{}: method {method} guarantees {got} there with verdict {verdict}, but {wanted} is required: {evidence}. To accept it, give --require-verdict {verdict}",
            new.display()
        ),
        e => e.into(),
    }
}

/// Returns the system's error if it reports a lack of space.
pub fn no_space(e: &Error) -> Option<String> {
    match e {
        Error::Poisoned { cause, .. } => no_space(cause),
        Error::NoSpace { source, .. } => Some(source.to_string()),
        Error::Io { source, .. } if e.kind() == ErrorKind::NoSpace => Some(source.to_string()),
        _ => None,
    }
}

/// Returns true if `new`, which does not exist, would be created in `src` or below it.
fn is_within(new: &Path, src: &Path) -> bool {
    let parent = new.parent().filter(|p| !p.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new(".")).canonicalize();
    // The opening reports a path that cannot be found.
    parent.is_ok_and(|parent| src.canonicalize().is_ok_and(|src| parent.starts_with(src)))
}

/// Returns the path at which NEW is created. A killed salvage leaves it there, under a name that shows
/// that it is not complete.
fn partial(new: &Path) -> anyhow::Result<PathBuf> {
    let Some(name) = new.file_name() else {
        bail!(Usage(format!(
            "'{}' does not name a directory",
            new.display()
        )));
    };
    let mut name = name.to_owned();
    name.push(".partial");
    let partial = new.with_file_name(name);
    if partial.symlink_metadata().is_ok() {
        bail!(
            "{} exists, perhaps from a salvage that was interrupted: remove it first",
            partial.display()
        );
    }
    Ok(partial)
}

fn remove(partial: &Path) {
    // This run created it. If it cannot be removed, the next run reports it.
    let _ = std::fs::remove_dir_all(partial);
}

/// Gives the whole log its name, durably.
fn appear(partial: &Path, new: &Path) -> anyhow::Result<()> {
    directory::uninterrupted(|| std::fs::rename(partial, new))
        .with_context(|| format!("cannot rename {} to {}", partial.display(), new.display()))?;
    #[cfg(unix)]
    {
        let parent = new.parent().filter(|p| !p.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        std::fs::File::open(parent)
            .and_then(|dir| dir.sync_all())
            .with_context(|| format!("cannot sync {}", parent.display()))?;
    }
    Ok(())
}

fn save(inspector: &Inspector, mut made: Made<'_>) -> anyhow::Result<()> {
    let summary = inspector.summary();
    made.report.log_id = summary.log_id.to_string();
    made.report.bounds_known = summary.bounds_known;
    made.report.unknown = unknown_bounds(&summary);
    if summary.in_use {
        complain("the log is open for writing: records appended from now on may be missing");
    }
    let bar = Bar::new();
    bar.doing("saving");
    let first = summary.segments.first().map_or(0, |s| s.start.0);
    let whole = summary.prepared_end.0.saturating_sub(first).max(1) as f64;
    let (mut damages, mut seen) = (Extents::default(), 0_u64);
    let finding = inspector.walk(&mut |visit| match visit {
        Visit::Record { record, proven } => {
            seen += 1;
            if seen.is_multiple_of(4096) {
                bar.fraction(record.end.0.saturating_sub(first) as f64 / whole);
            }
            made.take(record, proven)
        }
        Visit::Damage(damage) => {
            damages.damage(damage);
            true
        }
        Visit::Batch(batch) => {
            damages.batch(batch);
            true
        }
        Visit::Part(_) => true,
    });
    let finding = finding?;
    bar.clear();
    if let Some(e) = made.failed {
        return Err(e);
    }
    let report = made.report;
    report.voided = finding.voided;
    report.parts = finding.parts;
    if finding.parts > 0 {
        complain(&format!(
            "{} of appends that are not whole any more: not saved, `logforce dump` lists them",
            count(finding.parts, "record")
        ));
    }
    report.damages = finding.damages;
    report.damage = damages.reported(&summary);
    report.metadata = metadata(&summary);
    match inspector.meta() {
        Ok(Some(meta)) => {
            made.log.set_meta(&meta)?;
            report.metadata_saved = true;
        }
        Ok(None) => {}
        // The text reports this together with the metadata.
        Err(Error::Damaged(_)) => report.metadata_saved = false,
        Err(e) => return Err(e.into()),
    }
    report.complete = report.bounds_known
        && (report.metadata_saved || report.metadata.is_none())
        && report.damages == report.damage.len() as u64
        && report.damage.iter().all(|d| !d.missing);
    if let Some(mut map) = made.map {
        map.flush()?;
    }
    let end: Lsn = made.log.tail_lsn();
    made.log.force(end)?;
    made.log.close()?;
    Ok(())
}

fn text(r: &Report) -> String {
    let mut text = String::new();
    for NotSaved {
        damage,
        to,
        bytes: lost,
        missing,
    } in &r.damage
    {
        let file = damage.file.as_deref().unwrap_or("");
        let extent = match (to, lost) {
            (Some(to), Some(lost)) => format!(" to {to}, {} of log", bytes(*lost)),
            _ => String::new(),
        };
        text.push_str(&format!(
            "{}: {} at LSN {}{extent} ({file} offset {}): {}\n",
            match missing {
                true => "NOT SAVED",
                false => "DAMAGED, but nothing is missing",
            },
            damage.case,
            damage.lsn,
            damage.offset,
            damage.found
        ));
    }
    let unlisted = r.damages.saturating_sub(r.damage.len() as u64);
    if unlisted > 0 {
        text.push_str(&format!("NOT SAVED: {unlisted} more places\n"));
    }
    if let Some(metadata) = &r.metadata {
        let saved = if r.metadata_saved {
            "saved"
        } else {
            "NOT SAVED"
        };
        text.push_str(&format!("metadata: {metadata}; {saved}\n"));
    }
    if let Some(unknown) = &r.unknown {
        text.push_str(&format!("UNKNOWN: {unknown}\n"));
    }
    let rest = r.records - r.proven;
    text.push_str(&format!(
        "saved {} ({}) of the log {} in {} to {}: {} known to have been durable{}\n",
        count(r.records, "record"),
        bytes(r.record_bytes),
        r.log_id,
        r.src,
        r.new,
        r.proven,
        match rest {
            0 => String::new(),
            n => format!(", {n} whole but not known to be: written last, perhaps never acknowledged"),
        }
    ));
    text.push_str(match (r.complete, r.damages, r.bounds_known) {
        (true, ..) => "nothing is missing\n",
        (false, 0, false) => "something MAY BE MISSING: see above\n",
        (false, ..) => "something IS MISSING: see above\n",
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use logforce::Method;

    /// The library's error names its own option, which the command does not have.
    #[test]
    fn a_place_that_is_not_safe_enough_names_the_commands_option() {
        let args = Args {
            src: "/src".into(),
            new: "/new".into(),
            require: Guarantee::PowerLoss,
            require_verdict: Verdict::Declared,
            map: None,
            json: None,
        };
        let e = Error::Refused(Refused::Guarantee {
            path: "/new.partial".into(),
            method: Method::Fdatasync,
            wanted: Guarantee::PowerLoss,
            got: Guarantee::ProcessCrash,
            evidence: "tmpfs is in memory".to_owned(),
        });
        let message = refused(e, &args).to_string();
        assert!(message.contains("--require process-crash"), "{message}");
        assert!(message.contains("tmpfs is in memory"), "{message}");
        assert!(!message.contains("Options"), "{message}");
        let e = Error::Refused(Refused::Verdict {
            path: "/new.partial".into(),
            method: Method::Fdatasync,
            got: Guarantee::PowerLoss,
            verdict: Verdict::Unknown,
            wanted: Verdict::Declared,
            evidence: "a program serves it".to_owned(),
        });
        let message = refused(e, &args).to_string();
        assert!(message.contains("--require-verdict unknown"), "{message}");
        assert!(!message.contains("Options"), "{message}");
    }
}
