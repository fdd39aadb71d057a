//! Output of `logforce bench --for` as text: the answer in three lines, then what it rests on.

use super::report::{BesideLine, ForceLine, PreflightReport, RepetitionLine};
use logforce_measure::preflight::Fitness;
use logforce_terminal::layout::{labelled, wrap};
use logforce_terminal::numbers::{bytes, count, number, short};

/// Column at which values begin.
const INDENT: usize = 12;

/// Returns the report for a terminal of `width` characters.
pub fn render(report: &PreflightReport, width: usize) -> String {
    let mut text = String::new();
    for line in [answer(report), figures(report), survives(report)] {
        text.push_str(&wrap(&line, width, 2));
    }
    text.push('\n');
    let mut line = |what: &str, value: &str| text.push_str(&labelled(what, value, INDENT, width));
    for (n, force) in report.forces.iter().enumerate() {
        let what = if n == 0 { "commit" } else { "then" };
        line(what, &of_force(force));
    }
    line(
        "settings",
        &format!("{}: {}", report.title, report.settings),
    );
    match &report.threshold {
        Some(t) => line(
            "threshold",
            &format!(
                "{} of {} by {} ({}). Above it {}.",
                t.percentile,
                whole(t.limit_us),
                t.by,
                t.address,
                t.effect
            ),
        ),
        None => line("threshold", "none is published"),
    }
    for (n, repetition) in report.repetitions.iter().enumerate() {
        line(&format!("run {}", n + 1), &of_repetition(repetition));
    }
    if let Some(beside) = &report.beside {
        line("beside", &of_load(beside, &report.repetitions));
    }
    line("directory", &report.directory);
    line("machine", &report.machine.to_string());
    line("evidence", &format!("{}.", report.survives.evidence));
    for (n, note) in report.notes.iter().chain(&report.machine.notes).enumerate() {
        line(if n == 0 { "notes" } else { "" }, note);
    }
    for (n, force) in report.forces.iter().enumerate() {
        line(if n == 0 { "the same" } else { "" }, &force.fio);
    }
    for (n, source) in report.sources.iter().enumerate() {
        line(if n == 0 { "sources" } else { "" }, source);
    }
    text
}

fn answer(report: &PreflightReport) -> String {
    let (title, place, why) = (report.title, &report.directory, &report.why);
    if report.interrupted {
        return format!("Interrupted: it is open if {place} is fit for {title}.");
    }
    match (report.answer, &report.threshold) {
        (Fitness::Fit, Some(_)) => format!("{place} is fit for {title}: {why}."),
        (Fitness::Fit, None) => format!("{place}: {why}."),
        (Fitness::Unfit, _) => format!("{place} is NOT FIT for {title}: {why}."),
        (Fitness::Unclear, _) => format!("Cannot tell if {place} is fit for {title}: {why}."),
    }
}

/// Returns the percentiles of the repetition that decides, the last one.
fn figures(report: &PreflightReport) -> String {
    let Some(last) = report.repetitions.last() else {
        return "Nothing was measured.".to_owned();
    };
    let limit = report.threshold.as_ref().map_or_else(String::new, |t| {
        format!("; the limit of {} is {}", t.percentile, whole(t.limit_us))
    });
    format!(
        "{}{limit} ({}).",
        percentiles(last),
        count(last.commits, "commit")
    )
}

fn survives(report: &PreflightReport) -> String {
    let worth = &report.survives;
    let guarantee = worth.guarantee.trim_end_matches('?');
    let only = if guarantee == "power-loss" {
        ""
    } else {
        "only "
    };
    match worth.verdict {
        doubt @ ("unknown" | "implausible") if worth.guarantee != guarantee => {
            format!("A commit here survives {guarantee}: that is {doubt}.")
        }
        verdict => format!(
            "A commit here survives {only}{guarantee}: {verdict}, {}.",
            worth.by
        ),
    }
}

fn percentiles(r: &RepetitionLine) -> String {
    let tail = |us: Option<f64>| us.map_or_else(|| "- (too few commits)".to_owned(), time);
    format!(
        "p50 {}, p99 {}, p99.9 {}, max {}",
        time(r.p50_us),
        tail(r.p99_us),
        tail(r.p999_us),
        time(r.max_us)
    )
}

/// Formats microseconds: as such below a millisecond, as seconds from one second on.
fn time(us: f64) -> String {
    match us {
        us if us < 1e3 => format!("{} µs", short(us, 1)),
        us if us < 1e6 => format!("{} ms", short(us / 1e3, 2)),
        us => format!("{} s", short(us / 1e6, 2)),
    }
}

/// Formats microseconds without decimals that are zero.
fn whole(us: f64) -> String {
    match us {
        us if us >= 1e6 && us % 1e6 == 0.0 => format!("{} s", us / 1e6),
        us if us >= 1e3 && us % 1e3 == 0.0 => format!("{} ms", us / 1e3),
        us => time(us),
    }
}

fn of_force(force: &ForceLine) -> String {
    format!(
        "{} to a {} file ({}), by {}; one committer",
        bytes(force.bytes),
        force.state,
        force.file,
        force.method
    )
}

fn of_repetition(r: &RepetitionLine) -> String {
    let above = r
        .above_limit
        .map_or_else(String::new, |n| format!("; {n} above the limit"));
    let flushes = r.device_flushes_per_commit.map_or_else(String::new, |n| {
        format!("; {} flushes a commit", number(Some(n), 2))
    });
    let waited = r.cpu_wait_percent.map_or_else(String::new, |n| {
        format!("; {n:.0} % of it waiting for a processor")
    });
    format!(
        "{} in {} s: {}{above}{flushes}{waited}",
        count(r.commits, "commit"),
        short(r.seconds, 1),
        percentiles(r)
    )
}

fn of_load(beside: &BesideLine, repetitions: &[RepetitionLine]) -> String {
    let mut parts = Vec::new();
    if let (Some(command), Some(starts)) = (&beside.command, beside.starts) {
        let times = if starts == 1 {
            "once".to_owned()
        } else {
            format!("{starts} times")
        };
        parts.push(format!("`{command}`, started {times}"));
    }
    if let (Some(asked), Some(rate)) = (beside.asked_bytes_per_s, beside.written_bytes_per_s) {
        let syncs = count(beside.syncs.unwrap_or(0), "sync");
        parts.push(format!(
            "{}/s written through the cache with {syncs}, of {}/s asked for",
            bytes_roughly(rate),
            bytes(asked)
        ));
    }
    let device: Vec<f64> = repetitions
        .iter()
        .filter_map(|r| r.device_bytes_per_s)
        .collect();
    if !device.is_empty() {
        let mean = device.iter().sum::<f64>() / device.len() as f64;
        parts.push(format!("the device wrote {}/s in all", bytes_roughly(mean)));
    }
    parts.join("; ")
}

/// Formats a number of bytes that was measured: rounded to a tenth of its unit.
fn bytes_roughly(n: f64) -> String {
    let mib = n / f64::from(1 << 20);
    if mib < 1.0 {
        format!("{} KiB", short(n / 1024.0, 1))
    } else {
        format!("{} MiB", short(mib, 1))
    }
}
