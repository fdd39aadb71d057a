//! The command.

use crate::options::Flags;
use crate::place::Place;
use crate::report::{self, Row};
use crate::rival::Rival;
use crate::subjects::{self, Entry, LOGFORCE, RAW};
use crate::{rounds, table};
use anyhow::{Context, Result, bail};
use clap::Parser;
use serde_json::json;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Reads the flags, runs everybody, prints.
pub fn main() -> ExitCode {
    match command(&Flags::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("rivals: {e:#}");
            ExitCode::FAILURE
        }
    }
}

/// True if nobody failed or lost anything.
fn command(flags: &Flags) -> Result<bool> {
    let entries = chosen(flags)?;
    let rivals: Vec<&dyn Rival> = entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Here(rival) => Some(&**rival),
            Entry::Absent { .. } => None,
        })
        .collect();
    let stop = Arc::new(AtomicBool::new(false));
    let raise = Arc::clone(&stop);
    ctrlc::set_handler(move || raise.store(true, Ordering::Relaxed))
        .context("cannot listen for Ctrl-C")?;
    let own_device = flags.own_device.as_deref();
    let place = Place::new(&flags.dir, own_device.map(|kind| (kind, flags.loop_size)))?;
    println!(
        "{} rounds of {:?} each, {}",
        flags.rounds,
        flags.seconds,
        place.in_words()
    );
    let lines = rounds::all(&rivals, flags, &place, &stop, progress);
    progress("");
    if stop.load(Ordering::Relaxed) {
        println!("interrupted: only complete rounds count");
    }
    let rows = report::rows(&lines);
    print!("{}", table::tables(&rows));
    print!("{}", table::below(&rivals, &entries, &rows));
    if let Some(path) = &flags.json {
        let all = as_json(flags, &place, &rivals, &entries, &rows);
        let text = serde_json::to_string_pretty(&all)?;
        std::fs::write(path, text + "\n").with_context(|| path.display().to_string())?;
    }
    Ok(rows.iter().all(is_well))
}

fn is_well(row: &Row) -> bool {
    let lost = row.kept.map_or(0, |k| k.missing + k.foreign);
    row.error.is_none() && lost == 0
}

/// Those that `--only` names, and what they are compared with.
fn chosen(flags: &Flags) -> Result<Vec<Entry>> {
    let mut entries = subjects::all();
    if flags.only.is_empty() {
        return Ok(entries);
    }
    if let Some(unknown) = flags
        .only
        .iter()
        .find(|name| entries.iter().all(|e| e.name() != *name))
    {
        let names: Vec<&str> = entries.iter().map(Entry::name).collect();
        bail!("no `{unknown}` here: there are {}", names.join(", "));
    }
    entries.retain(|entry| {
        let name = entry.name();
        [RAW, LOGFORCE].contains(&name) || flags.only.iter().any(|n| n == name)
    });
    Ok(entries)
}

/// One line that is written over, where somebody is looking.
fn progress(doing: &str) {
    let mut out = std::io::stderr();
    if out.is_terminal() {
        // Nothing depends on it.
        let _ = write!(out, "\r\x1b[K{doing}").and_then(|()| out.flush());
    }
}

fn as_json(
    flags: &Flags,
    place: &Place,
    rivals: &[&dyn Rival],
    entries: &[Entry],
    rows: &[Row],
) -> serde_json::Value {
    let settings: Vec<_> = rivals
        .iter()
        .map(|rival| {
            json!({
                "rival": rival.name(),
                "version": rival.version(),
                "settings": rival.settings(),
                "writers": rival.writers().in_words(),
            })
        })
        .collect();
    let absent: Vec<_> = entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Absent { name, why } => Some(json!({ "rival": name, "why": why })),
            Entry::Here(_) => None,
        })
        .collect();
    json!({
        "rounds": flags.rounds,
        "seconds": flags.seconds.as_secs_f64(),
        "place": place.in_words(),
        "counts_include_others": !place.is_own_device(),
        "settings": settings,
        "not_run": absent,
        "rows": rows,
    })
}
