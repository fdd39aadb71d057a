//! Conclusion from the rows: the recommended method, and the reason.

pub(super) mod candidate;
mod filled;

use super::super::Conclusion;
use super::row::{file_state, is_written, method};
use crate::result::Row;
use crate::run::ratio::FEWEST_ROUNDS;
use crate::run::{Relation, SubjectKind};
use candidate::{Candidate, FEWEST_COMMITS, candidates};
pub use filled::{Filled, filled};
use logforce_device::{ForceBy, Guarantee, Method, Platform, Verdict};
use logforce_terminal::numbers::{bytes, count, short};

/// Draws the conclusion from the raw rows, measured on `platform`. Recommends the fastest method, or the
/// platform's first choice if that is as fast.
pub fn conclude(rows: &[Row], platform: Platform) -> Conclusion {
    let raw: Vec<&Row> = rows
        .iter()
        .filter(|r| r.subject == SubjectKind::Raw)
        .collect();
    let measured: Vec<&Row> = raw.iter().copied().filter(|r| r.error.is_none()).collect();
    if measured.is_empty() {
        return Conclusion {
            text: "Nothing was measured, so nothing is recommended.".to_owned(),
            recommended: None,
        };
    }
    let (unvouched, safe): (Vec<&Row>, Vec<&Row>) = measured
        .iter()
        .copied()
        .filter(|r| r.is_safe())
        .partition(|r| is_unvouched(r, platform));
    if safe.is_empty() {
        let text = not_vouched(&unvouched).map_or_else(
            || nothing_safe(&measured),
            |why| format!("No method is recommended.{why}"),
        );
        return Conclusion {
            text,
            recommended: None,
        };
    }
    let written: Vec<&Row> = safe.iter().copied().filter(|r| is_written(r)).collect();
    let (base, on) = if written.is_empty() {
        (
            safe.clone(),
            "on the files measured (none was filled beforehand)",
        )
    } else {
        (written, "on files filled beforehand")
    };
    let default = platform.first_choice();
    let candidates = candidates(&base);
    let fastest = &candidates[0];
    let tied: Vec<&Candidate> = candidates
        .iter()
        .filter(|c| c.ratio(fastest).relation() != Relation::More)
        .collect();
    if tied.len() > 1 && tied.iter().any(|c| c.is_lacking()) {
        let mut text = cannot_tell(&tied, default);
        for sentence in [
            not_believed(&measured),
            not_vouched(&unvouched),
            the_log(rows, None),
        ] {
            text.push_str(&sentence.unwrap_or_default());
        }
        return Conclusion {
            text,
            recommended: None,
        };
    }
    let is_default =
        |c: &&&Candidate| c.method == default && c.ratio(fastest).relation() == Relation::Same;
    let chosen = tied.iter().find(is_default).map_or(fastest, |c| c);

    let mut text = if tied.len() == 1 {
        decided(fastest, candidates.get(1), !unvouched.is_empty(), &base, on)
    } else {
        undecided(&tied, chosen, default, &base, on)
    };
    if chosen.is_lacking() {
        text.push_str(&format!(
            " Too little was measured to trust the figure. {MORE_TIME}"
        ));
    }
    text.push_str(&worth(chosen.method, &base));
    if let Some(sentence) = prepared_files_pay(chosen, &safe) {
        text.push_str(&sentence);
    }
    if let Some(sentence) = faster_but_unsafe(chosen, &measured) {
        text.push_str(&sentence);
    }
    if let Some(sentence) = not_believed(&measured) {
        text.push_str(&sentence);
    }
    if let Some(sentence) = not_vouched(&unvouched) {
        text.push_str(&sentence);
    }
    if let Some(sentence) = the_log(rows, Some(chosen.method)) {
        text.push_str(&sentence);
    }
    Conclusion {
        text,
        recommended: Some(chosen.method),
    }
}

fn ms(value: f64) -> String {
    format!("{} ms", short(value, 3))
}

fn per_commit(rows: &[&Row]) -> String {
    rows.first().map_or(String::new(), |r| {
        format!(" per commit of {}", bytes(r.bytes))
    })
}

/// Returns the recommendation of the only candidate. `others` is true if methods with unknown
/// write-through were measured too.
fn decided(
    fastest: &Candidate,
    next: Option<&Candidate>,
    others: bool,
    rows: &[&Row],
    on: &str,
) -> String {
    let (first, against) = match next {
        Some(n) => (
            "fastest method",
            format!(
                ", against {} by {}, the next ({} times as long)",
                ms(n.ms),
                n.method,
                n.ratio(fastest).interval()
            ),
        ),
        None if others => (
            "only method measured, beside those whose write-through is unknown,",
            String::new(),
        ),
        None => ("only method measured", String::new()),
    };
    format!(
        "Use {} here: it is the {first} that survives loss of power, {}{} {on}{against}.",
        fastest.method,
        ms(fastest.ms),
        per_commit(rows)
    )
}

const MORE_TIME: &str = "Measure longer with --seconds, or measure everything with --full and without \
     a small --size.";

fn cannot_tell(tied: &[&Candidate], default: Method) -> String {
    let lacking: Vec<String> = tied
        .iter()
        .filter(|c| c.is_lacking())
        .map(|c| c.method.to_string())
        .collect();
    format!(
        "No method is recommended: it is unknown which one is the fastest that survives loss of power, because too little \
         was measured of {} (no file with {FEWEST_COMMITS} commits in {FEWEST_ROUNDS} slices). {MORE_TIME} A log that is \
         opened without a method is not affected; the default is {default}.",
        all_of(&lacking)
    )
}

/// Returns the recommendation of one of several methods, none of which is slower beyond the noise.
fn undecided(
    tied: &[&Candidate],
    chosen: &Candidate,
    default: Method,
    rows: &[&Row],
    on: &str,
) -> String {
    let first = tied.first().is_some_and(|c| c.method == chosen.method);
    let why = match (chosen.method == default, first) {
        (true, true) => "the default and the fastest measured",
        (true, false) => "the default, as fast as the fastest measured",
        _ => "the fastest measured",
    };
    let (mut same, mut unclear) = (Vec::new(), Vec::new());
    for other in tied.iter().filter(|c| c.method != chosen.method) {
        let ratio = other.ratio(chosen);
        let named = |words: String| format!("{} ({}, {words})", other.method, ms(other.ms));
        match ratio.relation() {
            Relation::Same => same.push(named(format!("{} times", ratio.interval()))),
            Relation::Unclear => unclear.push(named(ratio.unclear())),
            _ => unclear.push(named(format!("{} times as long", ratio.interval()))),
        }
    }
    let mut text = format!(
        "Use {} here, {why}: {}{} {on}.",
        chosen.method,
        ms(chosen.ms),
        per_commit(rows)
    );
    if !same.is_empty() {
        text.push_str(&format!(" The same: {}.", all_of(&same)));
    }
    if !unclear.is_empty() {
        text.push_str(&format!(" Perhaps as fast: {}.", all_of(&unclear)));
    }
    text.push_str(" All of them survive loss of power.");
    text
}

/// Joins a list: `a`, `a and b`, `a, b and c`.
fn all_of(list: &[String]) -> String {
    match list {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

fn worth(method: Method, rows: &[&Row]) -> String {
    let Some(row) = rows.iter().find(|r| r.method == method) else {
        return String::new();
    };
    let (Some(verdict), Some(evidence)) = (row.verdict, &row.evidence) else {
        return String::new();
    };
    match verdict {
        Verdict::Unknown => format!(" Whether {method} really does is unknown: {evidence}."),
        _ => format!(" That {method} survives power loss is {verdict}: {evidence}."),
    }
}

/// Advises to fill files beforehand, if that was faster beyond the noise.
fn prepared_files_pay(chosen: &Candidate, safe: &[&Row]) -> Option<String> {
    let rows = safe.iter().copied().filter(|r| r.method == chosen.method);
    let (filled, others): (Vec<&Row>, Vec<&Row>) = rows.partition(|r| is_written(r));
    let filled = Candidate {
        rows: filled,
        ..*chosen
    };
    let slower = others.into_iter().filter_map(|row| {
        let other = Candidate {
            ms: row.ms_per_commit?,
            rows: vec![row],
            ..*chosen
        };
        let ratio = other.ratio(&filled);
        (ratio.relation() == Relation::More).then_some((ratio, file_state(row)?))
    });
    let (ratio, state) = slower.max_by(|a, b| a.0.figure.total_cmp(&b.0.figure))?;
    Some(format!(
        " Fill files beforehand: the same on a {state} file took {:.1} times as long ({}).",
        ratio.figure,
        ratio.interval()
    ))
}

fn faster_but_unsafe(chosen: &Candidate, rows: &[&Row]) -> Option<String> {
    let mut faster: Vec<(f64, Method, Guarantee)> = rows
        .iter()
        .filter(|r| r.guarantee.is_some_and(|g| g < Guarantee::PowerLoss))
        .filter_map(|r| Some((r.ms_per_commit?, method(r)?, r.guarantee?)))
        .filter(|(ms, ..)| *ms < chosen.ms)
        .collect();
    // Keeps, for each method, the row with the strongest guarantee, and among equals the fastest.
    faster.sort_by(|a, b| b.2.cmp(&a.2).then(a.0.total_cmp(&b.0)));
    let mut seen = Vec::new();
    faster.retain(|(_, method, _)| {
        !seen.contains(method) && {
            seen.push(*method);
            true
        }
    });
    if faster.is_empty() {
        return None;
    }
    let list: Vec<String> = faster
        .iter()
        .map(|(took, method, guarantee)| {
            format!(
                "{method} ({}, {guarantee}: {})",
                ms(*took),
                loses(*guarantee)
            )
        })
        .collect();
    Some(format!(" Faster, but not safe: {}.", list.join("; ")))
}

/// Compares the log with the raw row of the same method: the recommended one if the log was measured
/// with it.
fn the_log(rows: &[Row], recommended: Option<Method>) -> Option<String> {
    let by_any = |r: &Row| r.subject == SubjectKind::Logforce && r.error.is_none();
    let by_it = |r: &Row| by_any(r) && method(r) == recommended;
    let is_measured = rows.iter().any(by_it);
    let log = |r: &&Row| if is_measured { by_it(r) } else { by_any(r) };
    let most = rows
        .iter()
        .filter(log)
        .max_by(|a, b| per_second(a).total_cmp(&per_second(b)))?;
    let alone = rows.iter().filter(log).find(|r| {
        r.threads == 1 && r.method == most.method && rows.iter().any(|raw| is_beside(raw, r))
    });
    let beside = alone.and_then(|row| {
        let raw: Vec<f64> = rows
            .iter()
            .filter(|raw| is_beside(raw, row))
            .filter_map(|raw| raw.ms_per_commit)
            .collect();
        let raw = raw.iter().sum::<f64>() / raw.len() as f64;
        Some(format!(
            " The log, by {}, took {:.1} times as long for {} as the raw loop{}.",
            row.method,
            row.ms_per_commit? / raw,
            bytes(row.bytes),
            match row.file_bytes_per_commit {
                Some(n) if n > row.bytes as f64 => format!(
                    " (it writes {:.1} KiB for them: header, and padding to the write unit)",
                    n / 1024.0
                ),
                _ => String::new(),
            }
        ))
    });
    let many = (most.threads > 1).then(|| {
        format!(
            " Highest rate of the log, by {}: {} commits of {} a second from {}.",
            most.method,
            short(most.commits_per_s.unwrap_or(0.0), 0),
            bytes(most.bytes),
            count(most.threads, "thread")
        )
    });
    (beside.is_some() || many.is_some())
        .then(|| beside.unwrap_or_default() + &many.unwrap_or_default())
}

fn per_second(row: &Row) -> f64 {
    row.commits_per_s.unwrap_or(0.0)
}

/// Returns whether `raw` is a row with which the log by one thread is compared.
fn is_beside(raw: &Row, log: &Row) -> bool {
    raw.subject == SubjectKind::Raw
        && raw.error.is_none()
        && raw.method == log.method
        && raw.bytes == log.bytes
        && is_written(raw)
}

fn loses(guarantee: Guarantee) -> &'static str {
    match guarantee {
        Guarantee::OsCrash => "a power cut loses the last commits",
        Guarantee::ProcessCrash => "a crash of the system or a power cut loses the last commits",
        Guarantee::Nothing => "any crash loses the last commits",
        _ => "loses nothing",
    }
}

fn not_believed(rows: &[&Row]) -> Option<String> {
    let doubtful: Vec<&&Row> = rows
        .iter()
        .filter(|r| r.verdict == Some(Verdict::Implausible))
        .collect();
    let first = doubtful.first()?;
    let mut names: Vec<&str> = doubtful.iter().map(|r| r.method.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    Some(format!(
        " Implausible, and therefore not recommended: {} ({}).",
        names.join(", "),
        first.evidence.as_deref().unwrap_or("no reason recorded")
    ))
}

/// Returns whether the row relies on a write-through that no flush completes and that the device does
/// not declare. A device that ignores write-through would be the fastest of all. Calibration leaves
/// these methods out for the same reason.
fn is_unvouched(row: &Row, platform: Platform) -> bool {
    method(row).is_some_and(|m| m.plan().force == ForceBy::Through)
        && !platform.completes_write_through()
        && row.verdict == Some(Verdict::Unknown)
}

fn not_vouched(rows: &[&Row]) -> Option<String> {
    let first = rows.first()?;
    let mut names: Vec<&str> = rows.iter().map(|r| r.method.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    Some(format!(
        " Not preferred to a flush, however fast: {} ({}).",
        names.join(", "),
        first
            .evidence
            .as_deref()
            .unwrap_or("its write-through is unknown")
    ))
}

fn nothing_safe(measured: &[&Row]) -> String {
    // Prefers contradicted evidence; else the reason why a forcing method is not trusted.
    let promised = measured
        .iter()
        .find(|r| r.verdict == Some(Verdict::Contradicted))
        .or_else(|| {
            measured.iter().find(|r| {
                method(r).is_some_and(|m| m.plan().force != ForceBy::None)
                    && r.verdict == Some(Verdict::Unknown)
            })
        });
    let (reason, more) = match (promised, not_believed(measured)) {
        (Some(row), more) => (row.evidence.clone(), more),
        (None, Some(more)) => (None, Some(more)),
        (None, None) => (
            Some("none of the methods measured waits for the medium".to_owned()),
            None,
        ),
    };
    let mut text = "No row is safe here, so no method is recommended".to_owned();
    match reason {
        Some(reason) => text.push_str(&format!(": {reason}.")),
        None => text.push('.'),
    }
    text.push_str(more.as_deref().unwrap_or(""));
    text
}

#[cfg(test)]
mod tests;
