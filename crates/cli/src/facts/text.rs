//! Output of `logforce facts` as text.

use super::report::{FactsReport, MethodLine};
use logforce_terminal::layout;
use logforce_terminal::layout::wrap;
use logforce_terminal::numbers::bytes;

/// Column at which values begin.
const INDENT: usize = 15;

/// Returns the report for a terminal of `width` characters.
pub fn render(report: &FactsReport, width: usize) -> String {
    let mut lines = Lines {
        text: String::new(),
        width,
    };
    lines.place(report);
    lines.write_through(report);
    lines.methods(&report.methods);
    lines.text.push('\n');
    let default = format!("{}: {}", report.default, report.default_why);
    lines.line("default", &default);
    lines.line("a log here now", &report.next.sentences());
    for path in &report.next.stored_in {
        lines.line("calibrated in", path);
    }
    if report.next.stored_in.is_empty() {
        lines.line("calibrated", "nothing is stored (see `logforce calibrate`)");
    }
    for (n, cuts) in report.power_cuts.iter().enumerate() {
        let what = if n == 0 { "power cuts" } else { "" };
        let outcome = if cuts.kept { "proven" } else { "contradicted" };
        lines.line(
            what,
            &format!("{} {outcome}: {}", cuts.method, cuts.evidence),
        );
    }
    for unread in &report.power_cuts_unread {
        lines.line("NOT READ", unread);
    }
    if report.power_cuts.is_empty() && report.power_cuts_unread.is_empty() {
        lines.line(
            "power cuts",
            "none are recorded for this filesystem (see `logforce powercut`)",
        );
    }
    lines.text
}

struct Lines {
    text: String,
    width: usize,
}

impl Lines {
    fn line(&mut self, what: &str, value: &str) {
        // Several spaces separate the two; wrapping would leave only one.
        let first = format!("{what:<INDENT$}");
        let rest = wrap(value, self.width.max(INDENT + 20) - INDENT, 0);
        let rest = rest.trim_end().replace('\n', &format!("\n{:INDENT$}", ""));
        self.text.push_str(&format!("{first}{rest}\n"));
    }

    fn place(&mut self, report: &FactsReport) {
        let m = &report.machine;
        self.line("directory", &report.directory);
        self.line(
            "filesystem",
            &format!(
                "{}{}; {}",
                m.filesystem,
                if m.mount_point.is_empty() {
                    String::new()
                } else {
                    format!(" on {}", m.mount_point)
                },
                in_words(report.kind)
            ),
        );
        let options = match (m.mount_options.as_str(), m.barriers) {
            ("", Some(true) | None) => "none known".to_owned(),
            (options, Some(true) | None) => options.to_owned(),
            (options, Some(false)) => format!("{options}; BARRIERS ARE OFF"),
        };
        self.line("options", &options);
        let volume = match &report.volume {
            None => "unknown".to_owned(),
            Some(volume) if report.volume_lasts => volume.clone(),
            Some(volume) => {
                format!(
                    "{volume}; another filesystem may have it after a restart, so verdicts are not stored"
                )
            }
        };
        self.line("volume", &volume);
        let capacity = report.capacity.map_or("unknown".to_owned(), bytes);
        self.line("capacity", &capacity);
        let system = format!("{} {}, {}, {} cpus", m.os, m.kernel, m.arch, m.cpus);
        self.line("system", &system);
        let device = m.device.as_deref().unwrap_or("none could be identified");
        let model = m.model.as_deref().map(|model| format!(", {model}"));
        self.line("device", &format!("{device}{}", model.unwrap_or_default()));
        if m.device.is_some() {
            self.device(report);
        }
        let direct = match &report.direct {
            None => "not offered".to_owned(),
            Some(d) => format!("memory aligned to {}, offsets to {}", d.memory, d.offset),
        };
        let direct = format!("{direct}; write unit {}", m.write_unit);
        self.line("direct I/O", &direct);
        for (n, note) in m.notes.iter().enumerate() {
            self.line(if n == 0 { "notes" } else { "" }, note);
        }
    }

    fn device(&mut self, report: &FactsReport) {
        let m = &report.machine;
        let cache = match m.write_cache.as_str() {
            "write-back" => format!("volatile, {}", m.write_cache_by),
            "write-through" => format!("none, or not volatile, {}", m.write_cache_by),
            _ => "unknown".to_owned(),
        };
        self.line("write cache", &cache);
        self.line("FUA", yes_or_no(m.fua));
        let number = |n: Option<u32>| n.map_or("unknown".to_owned(), |n| n.to_string());
        let sectors = format!(
            "{} bytes logical, {} physical",
            number(m.logical_sector),
            number(m.physical_sector)
        );
        self.line("sectors", &sectors);
        let rotational = match m.rotational {
            Some(true) => "yes, as reported by the device (virtual disks report this by default)",
            other => yes_or_no(other),
        };
        self.line("rotational", rotational);
    }

    fn write_through(&mut self, report: &FactsReport) {
        let w = &report.write_through;
        self.text
            .push_str("\nDoes this device honour write-through?\n");
        let answer = match w.answer {
            "unknown" => "unknown, nothing reports it",
            answer => answer,
        };
        let verdict = format!("{answer} ({}, {}): {}.", w.guarantee, w.verdict, w.evidence);
        for sentences in [&verdict, &w.what_matters] {
            for line in wrap(sentences, self.width.max(20) - 2, 0).lines() {
                self.text.push_str(&format!("  {line}\n"));
            }
        }
    }

    /// Adds the table, and below it each reason once.
    fn methods(&mut self, methods: &[MethodLine]) {
        self.text.push_str(
            "\nWhat a force survives, on a file that was filled beforehand, as the log does:\n",
        );
        let mut reasons: Vec<String> = Vec::new();
        let mut cell = |guarantee: &str, verdict: &str, reason: &str| {
            let n = match reasons.iter().position(|r| r == reason) {
                Some(n) => n,
                None => {
                    reasons.push(reason.to_owned());
                    reasons.len() - 1
                }
            };
            format!("{guarantee}, {verdict} [{}]", n + 1)
        };
        let rows: Vec<Vec<String>> = methods
            .iter()
            .map(|m| {
                let prepared = match (m.guarantee, m.verdict, &m.evidence, &m.why_not) {
                    (Some(guarantee), Some(verdict), Some(why), _) => cell(guarantee, verdict, why),
                    (.., why) => cell("n/a", "not offered", why.as_deref().unwrap_or_default()),
                };
                let unprepared = m.unprepared.as_ref().map_or("the same".to_owned(), |u| {
                    cell(u.guarantee, u.verdict, &u.evidence)
                });
                let mark = if m.is_default { " (default)" } else { "" };
                vec![format!("{}{mark}", m.method), prepared, unprepared]
            })
            .collect();
        let headings = ["method", "filled file", "other file"].map(str::to_owned);
        self.text
            .push_str(&layout::plain(&headings, rows, &[0, 1, 2]));
        for (n, reason) in reasons.iter().enumerate() {
            let note = wrap(&format!("[{}] {reason}", n + 1), self.width, 4);
            self.text.push_str(&note);
        }
    }
}

fn yes_or_no(value: Option<bool>) -> &'static str {
    match value {
        Some(true) => "yes",
        Some(false) => "no",
        None => "unknown",
    }
}

fn in_words(kind: &str) -> &'static str {
    match kind {
        "in-place" => "overwrites in place",
        "relocating" => "does not overwrite in place",
        "volatile" => "keeps files in memory",
        "remote" => "is on another machine",
        _ => "it is not known what it does with a write",
    }
}
