//! Output of `logforce calibrate`, as JSON and as text. Field names are kept compatible; see
//! `docs/cli-json.md`.

use logforce::disk::FileState;
use logforce::disk::calibration::{
    self, Calibration, Figure, Origin, WriteThroughCalibration, WriteThroughFigure,
};
use logforce_measure::machine::Machine;
use logforce_terminal::layout;
use logforce_terminal::numbers::{bytes, count, short};
use serde::Serialize;
use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

/// One run of the command.
#[derive(Debug, Serialize)]
pub struct CalibrateReport {
    schema: &'static str,
    version: u32,
    command: String,
    machine: Machine,
    default: String,
    method: String,
    decided: bool,
    why: String,
    guarantee: Option<&'static str>,
    verdict: Option<&'static str>,
    verdict_why: Option<String>,
    /// `measured`, `known`, `skipped` or `failed`.
    origin: &'static str,
    candidates: Vec<Candidate>,
    left_out: Vec<LeftOut>,
    evidence: Option<Evidence>,
    /// Limit up to which copy-on-write page files write through.
    write_through: Option<WriteThrough>,
    /// Reason for which that limit was not measured.
    write_through_missing: Option<String>,
    stored_in: Vec<String>,
    not_stored: Option<String>,
    /// Reasons for which some results of power cuts cannot be read, with the remedy.
    power_cuts_unread: Vec<String>,
}

/// A method that was measured.
#[derive(Debug, Serialize)]
struct Candidate {
    method: &'static str,
    median_us: f64,
    median_large_us: f64,
    /// Its time divided by the default's; all three are null for the default.
    ratio: Option<f64>,
    ratio_low: Option<f64>,
    ratio_high: Option<f64>,
}

#[derive(Debug, Serialize)]
struct LeftOut {
    method: &'static str,
    why: String,
}

/// Time of the measurement, and the filesystem and device that it is valid for.
#[derive(Debug, Serialize)]
struct Evidence {
    /// RFC 3339, UTC.
    measured: Option<String>,
    pairs: u32,
    seconds: f64,
    volume: String,
    filesystem: String,
    mount_options: String,
    device: String,
    model: String,
    kernel: String,
    write_unit: u32,
    direct: bool,
    procedure: u32,
    live: Option<Live>,
}

/// Statistics of real use since the measurement.
#[derive(Debug, Serialize)]
struct Live {
    method: &'static str,
    forces: u64,
    p50_us: f64,
}

/// Comparison of write-through with a barrier after the writes.
#[derive(Debug, Serialize)]
struct WriteThrough {
    runs: u32,
    bytes: u64,
    why: String,
    /// RFC 3339, UTC.
    measured: Option<String>,
    turns: u32,
    seconds: f64,
    candidates: Vec<Shape>,
}

/// Times of commits with this number of runs and bytes.
#[derive(Debug, Serialize)]
struct Shape {
    runs: u32,
    bytes: u64,
    write_through_us: f64,
    barrier_us: f64,
    /// The first time divided by the second; all three are null if there were too few pairs.
    ratio: Option<f64>,
    ratio_low: Option<f64>,
    ratio_high: Option<f64>,
}

fn write_through(t: &WriteThroughCalibration) -> WriteThrough {
    let shape = |f: &WriteThroughFigure| Shape {
        runs: f.runs,
        bytes: f.bytes,
        write_through_us: micros(f.through),
        barrier_us: micros(f.barrier),
        ratio: f.ratio.map(|r| r.mid),
        ratio_low: f.ratio.map(|r| r.low),
        ratio_high: f.ratio.map(|r| r.high),
    };
    WriteThrough {
        runs: t.decided.limit.runs,
        bytes: t.decided.limit.bytes,
        why: t.decided.why.clone(),
        measured: time(t.measured_at),
        turns: t.turns,
        seconds: t.spent.as_secs_f64(),
        candidates: t.decided.figures.iter().map(shape).collect(),
    }
}

fn micros(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e9).round() / 1e3
}

fn candidate(f: &Figure) -> Candidate {
    Candidate {
        method: f.method.name(),
        median_us: micros(f.median),
        median_large_us: micros(f.median_large),
        ratio: f.to_default.map(|r| r.mid),
        ratio_low: f.to_default.map(|r| r.low),
        ratio_high: f.to_default.map(|r| r.high),
    }
}

fn evidence(c: &Calibration) -> Evidence {
    let v = &c.valid_for;
    Evidence {
        measured: time(c.measured_at),
        pairs: c.pairs,
        seconds: c.spent.as_secs_f64(),
        volume: v.volume.clone(),
        filesystem: v.filesystem.clone(),
        mount_options: v.mount_options.clone(),
        device: v.device.clone(),
        model: v.model.clone(),
        kernel: v.kernel.clone(),
        write_unit: v.write_unit,
        direct: v.direct,
        procedure: v.procedure,
        live: c.live.map(|l| Live {
            method: l.method.name(),
            forces: l.forces,
            p50_us: micros(l.p50),
        }),
    }
}

/// Formats a time as RFC 3339. Returns `None` for 0, and for a time that cannot be written so, which a
/// damaged file may hold.
fn time(unix_millis: u64) -> Option<String> {
    let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(unix_millis))?;
    let mut text = String::new();
    write!(text, "{}", humantime::format_rfc3339_seconds(at)).ok()?;
    (unix_millis > 0).then_some(text)
}

impl CalibrateReport {
    pub fn new(command: String, machine: Machine, found: &calibration::Report) -> Self {
        let d = &found.decision;
        let assessed = found.facts.assess(d.method, FileState::Zeroed);
        CalibrateReport {
            schema: "logforce-calibrate",
            version: 1,
            command,
            machine,
            default: found.facts.default_method().to_string(),
            method: d.method.to_string(),
            decided: d.decided,
            why: d.why.clone(),
            guarantee: assessed.as_ref().map(|a| a.granted().name()),
            verdict: assessed.as_ref().map(|a| a.verdict.name()),
            verdict_why: assessed.map(|a| a.evidence),
            origin: match &found.origin {
                Some(Origin::Measured) => "measured",
                Some(Origin::Known) => "known",
                Some(Origin::Skipped(_)) => "skipped",
                _ => "failed",
            },
            candidates: d.figures.iter().map(candidate).collect(),
            left_out: found
                .left_out
                .iter()
                .map(|l| LeftOut {
                    method: l.method.name(),
                    why: l.why.clone(),
                })
                .collect(),
            evidence: found.calibration.as_ref().map(evidence),
            write_through: found.write_through.as_ref().map(write_through),
            write_through_missing: found.write_through_missing.clone(),
            stored_in: found
                .stored_in
                .iter()
                .map(|p| p.display().to_string())
                .collect(),
            not_stored: found.not_stored.clone(),
            power_cuts_unread: found.facts.unread.clone(),
        }
    }

    /// Returns the report as text.
    pub fn text(&self) -> String {
        let mut text = self.machine.under_caveat(format!("{}\n\n", self.machine));
        if !self.candidates.is_empty() {
            text.push_str(&self.table());
            text.push('\n');
        }
        let mut line = |what: &str, value: &str| {
            text.push_str(&format!("{what:<12} {value}\n"));
        };
        let chosen = if self.decided { "" } else { " (undecided)" };
        let is_default = if self.method == self.default {
            ", the default"
        } else {
            ""
        };
        line("method", &format!("{}{is_default}{chosen}", self.method));
        line("why", &self.why);
        if let (Some(guarantee), Some(verdict), Some(why)) =
            (self.guarantee, self.verdict, &self.verdict_why)
        {
            line("guarantee", &format!("{guarantee}, {verdict}: {why}"));
        }
        for (n, l) in self.left_out.iter().enumerate() {
            let what = if n == 0 { "left out" } else { "" };
            line(what, &format!("{}: {}", l.method, l.why));
        }
        if let Some(e) = &self.evidence {
            let when = e.measured.as_deref().unwrap_or("at an unknown time");
            line(
                "measured",
                &format!("{when}, {} in {:.2} s", count(e.pairs, "turn"), e.seconds),
            );
            let known = |name: &str, value: &str| {
                let value = if value.is_empty() { "unknown" } else { value };
                format!("{name} {value}")
            };
            let parts = [
                known("filesystem", &e.volume),
                known("mounted", &e.mount_options),
                known("device", &e.device),
                known("kernel", &e.kernel),
                format!("write unit {}", e.write_unit),
            ];
            line("valid for", &parts.join("; "));
            if let Some(l) = &e.live {
                let p50 = short(l.p50_us, 2);
                let seen = format!("{} forces by {}, median {p50} µs", l.forces, l.method);
                line("in use", &seen);
            }
        }
        if let Some(t) = &self.write_through {
            let limit = match t.runs {
                0 => "never written through".to_owned(),
                runs => format!(
                    "written through up to {} and {}",
                    count(runs, "run"),
                    bytes(t.bytes)
                ),
            };
            line(
                "page files",
                &format!("copy-on-write: {limit}, else by a barrier"),
            );
            let when = t.measured.as_deref().unwrap_or("at an unknown time");
            let turns = count(t.turns, "turn");
            line(
                "",
                &format!("{}; measured {when}, {turns} in {:.2} s", t.why, t.seconds),
            );
        }
        if let Some(why) = &self.write_through_missing {
            line("page files", &format!("not measured: {why}"));
        }
        for path in &self.stored_in {
            line("stored in", path);
        }
        if let Some(why) = &self.not_stored {
            line("not stored", why);
        }
        for why in &self.power_cuts_unread {
            line("NOT READ", why);
        }
        text
    }

    fn table(&self) -> String {
        let unit = self.evidence.as_ref().map_or(0, |e| e.write_unit / 1024);
        let headings = [
            "method".to_owned(),
            format!("{unit} KiB, µs"),
            format!("{} KiB, µs", 4 * unit),
            "to default".to_owned(),
            "noise".to_owned(),
        ];
        let rows = self.candidates.iter().map(|c| {
            let noise = match (c.ratio_low, c.ratio_high) {
                (Some(low), Some(high)) => format!("{low:.2}–{high:.2}"),
                _ => String::new(),
            };
            vec![
                c.method.to_owned(),
                short(c.median_us, 2),
                short(c.median_large_us, 2),
                c.ratio.map_or("1".to_owned(), |r| format!("{r:.2}")),
                noise,
            ]
        });
        layout::plain(&headings, rows, &[0])
    }
}
