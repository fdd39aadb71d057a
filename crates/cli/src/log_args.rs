//! What `dump`, `verify` and `stat` share: opening a log for looking, and telling of it.

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

/// The log, and where results go.
#[derive(Debug, clap::Args)]
pub struct LogArgs {
    /// The directory of the log or the page file; nothing in it is locked or changed
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Where the control file is missing or damaged, go by what the segments hold
    #[arg(long)]
    pub salvage: bool,
    /// Write the result as JSON to FILE; - is standard output, and all else goes to standard error
    #[arg(long, value_name = "FILE")]
    pub json: Option<Target>,
    /// Write a table as CSV to FILE; - is standard output, and all else goes to standard error
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
            Err(e @ (Error::NoLog { .. } | Error::NotALog { .. } | Error::Damaged(_)))
                if !self.salvage && has_segments(&self.dir)? =>
            {
                bail!(Damaged(format!(
                    "{}. There are segments: look at them with --salvage, save what they hold with `logforce \
                     salvage`",
                    refusal(&e)
                )))
            }
            Err(e @ Error::NoLog { .. }) if self.salvage && has_segments(&self.dir)? => {
                bail!(Damaged(e.to_string()))
            }
            Err(e) if matches!(e, Error::Damaged(_)) => bail!(Damaged(refusal(&e))),
            Err(Error::NoLog { .. }) if directory::is_part_of_a_page_file(&self.dir)? => {
                Err(directory::without_data(&self.dir))
            }
            Err(e) => Err(e.into()),
        }
    }

    /// Where JSON and CSV go.
    pub fn sinks(&self) -> anyhow::Result<Sinks> {
        let is_stdout = |t: &Option<Target>| *t == Some(Target::Stdout);
        if is_stdout(&self.json) && is_stdout(&self.csv) {
            bail!(Usage(
                "--json - and --csv - cannot both have standard output".to_owned()
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

/// Where results go beside the terminal.
pub struct Sinks {
    /// Standard output carries data.
    pub stdout_has_data: bool,
    /// For JSON.
    pub json: Option<Writer>,
    /// For CSV.
    pub csv: Option<Writer>,
}

/// Why a log cannot be opened. Of damage without the library's advice, which is to look at it with the
/// command that is doing that.
pub fn refusal(e: &Error) -> String {
    match e {
        Error::Damaged(damage) => format!("damaged log: {damage}"),
        other => other.to_string(),
    }
}

/// Returns true if there are segments. Only where the system says that there is no directory there are none:
/// otherwise the advice would be to make a new log over what is whole.
fn has_segments(dir: &Path) -> anyhow::Result<bool> {
    // An interrupted list ends: it is begun anew.
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
        // Windows has other errors for a file.
        Err(_) if cfg!(windows) && dir.is_file() => Ok(false),
        looked => looked.map_err(|e| directory::cannot("list", dir, e)),
    }
}

/// Whether `damage` in a log that is being written is none: its place was truncated, and its file
/// reused, while it was read.
pub fn is_overtaken(dir: &Path, damage: &Damage) -> bool {
    logforce::inspect::open(dir).is_ok_and(|now| {
        let now = now.summary();
        now.in_use && now.segments.first().is_some_and(|s| damage.lsn < s.start)
    })
}

/// How many places are damaged.
pub fn places_of(damages: u64) -> String {
    match damages {
        1 => "one place".to_owned(),
        n => format!("{n} places"),
    }
}

/// Why a log ends where it does, in a sentence.
pub fn explain(case: RecoveryCase) -> &'static str {
    match case {
        RecoveryCase::CleanEnd => "nothing was ever written behind it, which is normal",
        RecoveryCase::StaleEnd => {
            "behind it are only old bytes of an earlier use of the segment, which is normal"
        }
        RecoveryCase::TornEnd => {
            "behind it is a write that was in flight when everything stopped: this is normal, and no damage (the last acknowledged batch, if it rotted before a stamp followed it, would look the same)"
        }
        RecoveryCase::FullEnd => "the prepared segments are full, which is normal",
        RecoveryCase::Damaged => "data behind it is known to have been durable and cannot be found",
        RecoveryCase::SegmentLost => "a segment that must exist does not",
        RecoveryCase::WrittenWrong => "the checksums behind it are right and the contents are not",
        RecoveryCase::ReadError => "the device reports an error on reading what is behind it",
        _ => "the walk was stopped here",
    }
}

/// What the directory and the control file say, as JSON.
#[derive(Debug, Serialize)]
pub struct LogInfo {
    /// The directory.
    pub path: String,
    /// Identifies the log.
    pub log_id: String,
    /// Records below are gone.
    pub front: u64,
    /// Durable up to here at least.
    pub anchor: u64,
    /// Exclusive end of the prepared segments.
    pub prepared_end: u64,
    /// Closed cleanly the last time, and the control file is whole to say so.
    pub clean: bool,
    /// Open for writing now.
    pub in_use: bool,
    /// The latest opening for writing: counter and nonce.
    pub epoch: String,
    /// Both slots of the control file are whole.
    pub control_whole: bool,
    /// Front, anchor and end are the control file's word, and not where the segments found begin and
    /// end.
    pub bounds_known: bool,
    /// Bytes of metadata; null if it was never set, or is lost.
    pub meta_bytes: Option<u64>,
    /// Both slots of the metadata hold the same, or the control file says that it was never set.
    pub meta_whole: bool,
    /// Bytes of all segments and spares.
    pub bytes: u64,
    /// Segments in use.
    pub segments: u64,
    /// Files kept for reuse.
    pub spares: u64,
    /// Files named like segments that are none of this log's.
    pub strays: u64,
}

impl LogInfo {
    /// From an inspection.
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

/// The state of the control file, in words.
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

/// What is unknown of a log without a usable control file; `None` where there is one.
/// What is there may be whole and yet a part: neither its first file nor its last need be the log's.
pub fn unknown_bounds(i: &LogSummary) -> Option<String> {
    if i.bounds_known {
        return None;
    }
    let (from, to) = (i.segments.first()?.start, i.segments.last()?);
    let below = match from {
        // The first segment of all is there.
        Lsn::ORIGIN => String::new(),
        from => format!("below LSN {from}, where the first segment found begins, and "),
    };
    Some(format!(
        "no control file can be used, so it is unknown where this log begins and ends: what lay {below}above LSN \
         {}, where the last segment found ends, may be lost; and of the records found, some may have been \
         truncated at the front",
        to.start.plus(to.len)
    ))
}

/// How much metadata there is, in words; `None` for none.
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
            "none there, and no control slot is valid that would say whether any was ever set"
                .to_owned(),
        ),
        None => Some("LOST: neither slot can be used".to_owned()),
    }
}

/// A place where something is missing or damaged.
#[derive(Debug, Serialize)]
pub struct DamageInfo {
    /// Where in the log.
    pub lsn: u64,
    /// The case of recovery's decision table.
    pub case: String,
    /// The file, if one can be named.
    pub file: Option<String>,
    /// Where in the file, bytes.
    pub offset: u64,
    /// What was found there.
    pub found: String,
    /// Data up to here is known to have been durable; null if nothing is known.
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
    /// Position of its first byte.
    pub start: Option<u64>,
    /// Exclusive end.
    pub end: Option<u64>,
    /// Bytes.
    pub bytes: Option<u64>,
    /// Write unit, bytes.
    pub write_unit: Option<u32>,
    /// The opening that prepared it.
    pub epoch: Option<String>,
    /// Of a stray: why it is none of this log's.
    pub why: Option<String>,
}

/// All files of the log.
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
        .map_err(|_| format!("'{text}' is no LSN: give a number, as 8192 or 0x2000"))
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
