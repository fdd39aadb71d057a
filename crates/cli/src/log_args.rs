//! Functions that `dump`, `verify` and `stat` share: opening a log for inspection, and describing it.

use crate::directory;
use crate::exit::{Damaged, Usage};
use crate::output::{Sink, Target, Writer};
use anyhow::bail;
use logforce::{
    Error, Lsn,
    inspect::{Damage, Inspector, LogSummary, RecoveryCase, SegmentInfo},
};
use logforce_terminal::numbers::count;
use serde::Serialize;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The log, and the files that results are written to.
#[derive(Debug, clap::Args)]
pub struct LogArgs {
    /// The directory of the log or the page file; nothing in it is locked or changed
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// If the control file is missing or damaged, use what the segments hold
    #[arg(long)]
    pub salvage: bool,
    /// Write the result as JSON to FILE; - writes to standard output, and other text to standard error
    #[arg(long, value_name = "FILE")]
    pub json: Option<Target>,
    /// Write a table as CSV to FILE; - writes to standard output, and other text to standard error
    #[arg(long, value_name = "FILE")]
    pub csv: Option<Target>,
}

impl LogArgs {
    /// Opens the log.
    pub fn inspector(&self) -> anyhow::Result<Inspector> {
        let opened = if self.salvage {
            logforce::inspect::salvage(&self.dir)
        } else {
            logforce::inspect::open(&self.dir)
        };
        match opened {
            Ok(inspector) => Ok(inspector),
            Err(e @ (Error::NoLog { .. } | Error::Damaged(_)))
                if !self.salvage && has_segments(&self.dir)? =>
            {
                bail!(Damaged(format!(
                    "{}. Segments exist: inspect them with --salvage, and save their records with `logforce \
                     salvage {} NEW`",
                    refusal(&e),
                    self.dir.display()
                )))
            }
            Err(e @ (Error::NoLog { .. } | Error::NotALog { .. })) if has_segments(&self.dir)? => {
                bail!(Damaged(e.to_string()))
            }
            Err(e) if matches!(e, Error::Damaged(_)) => bail!(Damaged(refusal(&e))),
            Err(Error::NoLog { .. }) if directory::is_part_of_a_page_file(&self.dir)? => {
                Err(directory::without_data(&self.dir))
            }
            Err(e) => Err(e.into()),
        }
    }

    /// Opens the files for JSON and CSV.
    pub fn sinks(&self) -> anyhow::Result<Sinks> {
        let is_stdout = |t: &Option<Target>| *t == Some(Target::Stdout);
        if is_stdout(&self.json) && is_stdout(&self.csv) {
            bail!(Usage(
                "--json - and --csv - both write to standard output: name a file for one of them"
                    .to_owned()
            ));
        }
        let open = |t: &Option<Target>| t.as_ref().map(Sink::open).transpose();
        Ok(Sinks {
            stdout_has_data: is_stdout(&self.json) || is_stdout(&self.csv),
            json: open(&self.json)?.map(Sink::writer).transpose()?,
            csv: open(&self.csv)?.map(Sink::writer).transpose()?,
        })
    }
}

/// Open files that results are written to, in addition to the terminal.
pub struct Sinks {
    /// True if standard output carries data.
    pub stdout_has_data: bool,
    /// Writer for JSON.
    pub json: Option<Writer>,
    /// Writer for CSV.
    pub csv: Option<Writer>,
}

/// Returns the reason for which a log cannot be opened. For damage it leaves out the library's advice,
/// which names the command that is running.
pub fn refusal(e: &Error) -> String {
    match e {
        Error::Damaged(damage) => format!("damaged log: {damage}"),
        other => other.to_string(),
    }
}

/// Returns true if there are segments. Returns false only if there are none or the directory does not
/// exist. Otherwise a failure would lead to the advice to create a new log over an intact one.
pub fn has_segments(dir: &Path) -> anyhow::Result<bool> {
    // A signal ends the listing, so it begins again.
    let looked = directory::uninterrupted(|| {
        for entry in std::fs::read_dir(dir)? {
            if entry?.path().extension().is_some_and(|x| x == "seg") {
                return Ok(true);
            }
        }
        Ok(false)
    });
    match looked {
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        // Windows reports other errors for a file.
        Err(_) if cfg!(windows) && dir.is_file() => Ok(false),
        looked => looked.map_err(|e| directory::cannot("list", dir, e)),
    }
}

/// Returns true if `damage` in a log that is being written only looks like damage: the place was
/// truncated, and its file reused, while it was read.
pub fn is_overtaken(dir: &Path, damage: &Damage) -> bool {
    logforce::inspect::open(dir).is_ok_and(|now| {
        let now = now.summary();
        now.in_use && now.segments.first().is_some_and(|s| damage.lsn < s.start)
    })
}

/// Returns the number of damaged places in words.
pub fn places_of(damages: u64) -> String {
    match damages {
        1 => "one place".to_owned(),
        n => format!("{n} places"),
    }
}

/// Explains in a sentence why a log ends where it does.
pub fn explain(case: RecoveryCase) -> &'static str {
    match case {
        RecoveryCase::CleanEnd => "nothing was ever written after it, which is normal",
        RecoveryCase::StaleEnd => {
            "only old bytes from an earlier use of the segment follow, which is normal"
        }
        RecoveryCase::TornEnd => {
            "a write follows that was in flight at a crash: this is normal and not damage (the last acknowledged batch would look the same if it was damaged before a stamp followed it)"
        }
        RecoveryCase::FullEnd => "the prepared segments are full, which is normal",
        RecoveryCase::Damaged => "data after it is known to have been durable and cannot be found",
        RecoveryCase::SegmentLost => "a segment that must exist is missing",
        RecoveryCase::WrittenWrong => "the checksums after it are right but the contents are not",
        RecoveryCase::ReadError => "the device reports an error on reading what follows",
        _ => "the walk was stopped here",
    }
}

/// Contents of the directory and the control file, as JSON.
#[derive(Debug, Serialize)]
pub struct LogInfo {
    /// Path of the directory.
    pub path: String,
    /// Identity of the log.
    pub log_id: String,
    /// LSN below which all records are gone.
    pub front: u64,
    /// LSN up to which the log is durable at least.
    pub anchor: u64,
    /// Exclusive end of the prepared segments.
    pub prepared_end: u64,
    /// True if the log was closed cleanly the last time, and the control file is whole.
    pub clean: bool,
    /// True if the log is open for writing now.
    pub in_use: bool,
    /// Epoch of the latest opening for writing: counter and nonce.
    pub epoch: String,
    /// True if both slots of the control file are whole.
    pub control_whole: bool,
    /// True if front, anchor and end come from the control file; otherwise they are where the segments
    /// found begin and end.
    pub bounds_known: bool,
    /// Bytes of metadata; null if it was never set, or is lost.
    pub meta_bytes: Option<u64>,
    /// True if both slots of the metadata hold the same, or the control file says that it was never set.
    pub meta_whole: bool,
    /// Bytes of all segments and spares.
    pub bytes: u64,
    /// Segments in use.
    pub segments: u64,
    /// Files kept for reuse.
    pub spares: u64,
    /// Number of files that are named like segments but do not belong to this log.
    pub strays: u64,
}

impl LogInfo {
    /// Builds it from an inspection.
    pub fn new(dir: &Path, i: &LogSummary) -> Self {
        LogInfo {
            path: dir.display().to_string(),
            log_id: i.log_id.to_string(),
            front: i.front.0,
            anchor: i.anchor.0,
            prepared_end: i.prepared_end.0,
            clean: i.clean,
            in_use: i.in_use,
            epoch: i.epoch.to_string(),
            control_whole: i.control_whole,
            bounds_known: i.bounds_known,
            meta_bytes: i.meta_len,
            meta_whole: i.meta_whole,
            bytes: i.segments.iter().map(|s| s.len).sum::<u64>()
                + i.spares.iter().map(|(_, len)| len).sum::<u64>(),
            segments: i.segments.len() as u64,
            spares: i.spares.len() as u64,
            strays: i.strays.len() as u64,
        }
    }
}

/// Returns the state of the control file in words.
pub fn control_file(dir: &Path, i: &LogSummary) -> &'static str {
    let is_missing = || {
        let looked = dir.join("control").symlink_metadata();
        looked.is_err_and(|e| e.kind() == ErrorKind::NotFound)
    };
    match i.control_whole {
        true => "whole, in both slots",
        false if is_missing() => "missing",
        false if !i.bounds_known => "not whole: neither slot can be used",
        false => "not whole: one slot, or both, cannot be used",
    }
}

/// Returns what is unknown of a log without a usable control file; `None` if there is one. The segments
/// found may be whole and still only a part of the log, because the first or the last ones may be missing.
pub fn unknown_bounds(i: &LogSummary) -> Option<String> {
    if i.bounds_known {
        return None;
    }
    let (from, to) = (i.segments.first()?.start, i.segments.last()?);
    let below = match from {
        // The very first segment exists.
        Lsn::ORIGIN => String::new(),
        from => format!("below LSN {from}, where the first segment found begins, and "),
    };
    Some(format!(
        "no control file can be used, so it is unknown where this log begins and ends. Records {below}above \
         LSN {}, where the last segment found ends, may be lost. Some of the records found may have been \
         truncated at the front before",
        to.start.plus(to.len)
    ))
}

/// Describes the metadata in words; `None` if there is none.
pub fn metadata(i: &LogSummary) -> Option<String> {
    let state = if i.meta_whole {
        "both slots valid"
    } else {
        "one slot differs or is damaged: the next opening repairs it"
    };
    match i.meta_len {
        Some(len) => Some(format!("{}, {state}", count(len, "byte"))),
        None if i.meta_whole => None,
        None if !i.meta_known => Some(
            "none found, and no control slot is valid to say whether any was ever set".to_owned(),
        ),
        None => Some("LOST: neither slot can be used".to_owned()),
    }
}

/// A place where something is missing or damaged.
#[derive(Debug, Serialize)]
pub struct DamageInfo {
    /// Position in the log.
    pub lsn: u64,
    /// Case of recovery's decision table.
    pub case: String,
    /// Name of the file, if one can be named.
    pub file: Option<String>,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Description of the contents that were found there.
    pub found: String,
    /// LSN up to which data is known to have been durable; null if nothing is known.
    pub durable_to: Option<u64>,
}

impl From<&Damage> for DamageInfo {
    fn from(d: &Damage) -> Self {
        DamageInfo {
            lsn: d.lsn.0,
            case: d.case.label().to_owned(),
            file: d.file.clone(),
            offset: d.offset,
            found: d.found.clone(),
            durable_to: (d.durable_to > Lsn::ORIGIN).then_some(d.durable_to.0),
        }
    }
}

/// One segment, as JSON and as a line of CSV.
#[derive(Debug, Serialize)]
pub struct SegmentLine {
    /// `segment`, `spare` or `stray`.
    pub kind: &'static str,
    /// File name.
    pub file: String,
    /// LSN of its first byte.
    pub start: Option<u64>,
    /// Exclusive end.
    pub end: Option<u64>,
    /// Size in bytes.
    pub bytes: Option<u64>,
    /// Write unit, bytes.
    pub write_unit: Option<u32>,
    /// Epoch of the opening that prepared it.
    pub epoch: Option<String>,
    /// Reason for which a stray does not belong to this log.
    pub why: Option<String>,
}

/// Lists all files of the log.
pub fn files(i: &LogSummary) -> Vec<SegmentLine> {
    let segment = |s: &SegmentInfo| SegmentLine {
        kind: "segment",
        file: s.name.clone(),
        start: Some(s.start.0),
        end: Some(s.start.plus(s.len).0),
        bytes: Some(s.len),
        write_unit: Some(s.write_unit),
        epoch: Some(s.epoch.to_string()),
        why: None,
    };
    let other = |kind, file: &str, bytes, why| SegmentLine {
        kind,
        file: file.to_owned(),
        start: None,
        end: None,
        bytes,
        write_unit: None,
        epoch: None,
        why,
    };
    let segments = i.segments.iter().map(segment);
    let spares = i
        .spares
        .iter()
        .map(|(name, len)| other("spare", name, Some(*len), None));
    let strays = i
        .strays
        .iter()
        .map(|(name, why)| other("stray", name, None, Some(why.clone())));
    segments.chain(spares).chain(strays).collect()
}

/// Parses a position: decimal, or hexadecimal with `0x`.
pub fn parse_lsn(text: &str) -> Result<Lsn, String> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed
        .map(Lsn)
        .map_err(|_| format!("'{text}' is not an LSN: give a number such as 8192 or 0x2000"))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn only_a_missing_directory_has_no_segments() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!has_segments(dir.path()).unwrap());
        assert!(!has_segments(&dir.path().join("missing")).unwrap());
        std::fs::write(dir.path().join("0000000000000000.seg"), "").unwrap();
        assert!(has_segments(dir.path()).unwrap());
        let circle = dir.path().join("circle");
        std::os::unix::fs::symlink("circle", &circle).unwrap();
        let told = has_segments(&circle).unwrap_err().to_string();
        assert!(told.contains("cannot list"), "{told}");
    }
}
