//! The command: reads the flags, runs the measurements and prints them.

use super::filesystem::{self, Filesystem};
use super::flags::Flags;
use super::report::{self, RivalRow};
use super::rival::Entry;
use super::rival::Rival;
use super::subjects::{self, LOGFORCE, RAW};
use super::{bulk, rounds, table};
use crate::place::{self, Line};
use anyhow::{Result, bail};
use clap::Parser;
use logforce_measure::Interrupt;
use logforce_terminal::numbers::count;
use serde_json::json;
use std::process::ExitCode;

/// Reads the flags, runs all rivals and prints the tables.
pub fn main() -> ExitCode {
    if let Some(task) = bulk::child::task() {
        return bulk::child::main(&task);
    }
    let flags = Flags::parse();
    place::run("rivals", |interrupt| compare(&flags, &interrupt))
}

/// Runs all rounds; returns true if no rival failed or lost a record.
fn compare(flags: &Flags, interrupt: &Interrupt) -> Result<bool> {
    let entries = chosen(flags)?;
    let rivals: Vec<&dyn Rival> = entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Here(rival) => Some(&**rival),
            Entry::Absent { .. } => None,
        })
        .collect();
    let filesystems = filesystem::all(&flags.common.dir, &flags.filesystems)?;
    println!(
        "{} of {:?} each",
        count(flags.rounds, "round"),
        flags.seconds
    );
    for filesystem in &filesystems {
        println!("- {}", filesystem.ground.in_words());
    }
    let lines = rounds::all(&rivals, flags, &filesystems, interrupt, &Line);
    let subjects = if flags.bulk > 0 {
        bulk::of(&rivals, &std::env::current_exe()?)
    } else {
        Vec::new()
    };
    let bulk_lines = bulk::all(&subjects, flags, &filesystems, interrupt, &Line);
    Line.clear();
    if interrupt.is_raised() {
        println!("interrupted: only complete rounds count");
    }
    let rows = report::rows(&lines);
    for filesystem in &filesystems {
        print!("{}", table::tables(filesystem, &rows));
    }
    let bulk_rows = bulk::rows(&bulk_lines, flags.bulk);
    if flags.bulk > 0 {
        for filesystem in &filesystems {
            print!("{}", bulk::tables(filesystem, &bulk_rows, flags.bulk));
        }
    }
    print!("{}", table::below(&rivals, &entries, &rows));
    if flags.bulk > 0 {
        print!("{}", bulk::below(&subjects, &bulk_rows));
    }
    let mut all = as_json(flags, &filesystems, &rivals, &entries, &rows);
    all["bulk"] = json!(bulk_rows);
    flags.common.write(&all)?;
    Ok(rows.iter().all(is_well) && bulk_rows.iter().all(bulk::BulkRow::is_well))
}

fn is_well(row: &RivalRow) -> bool {
    let lost = row.kept.map_or(0, |k| k.missing + k.foreign);
    row.error.is_none() && lost == 0
}

/// Returns the rivals that `--only` names, and those that they are compared with.
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
        bail!("unknown rival `{unknown}`: known are {}", names.join(", "));
    }
    entries.retain(|entry| {
        let name = entry.name();
        [RAW, LOGFORCE].contains(&name) || flags.only.iter().any(|n| n == name)
    });
    Ok(entries)
}

fn as_json(
    flags: &Flags,
    filesystems: &[Filesystem],
    rivals: &[&dyn Rival],
    entries: &[Entry],
    rows: &[RivalRow],
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
    let filesystems: Vec<_> = filesystems
        .iter()
        .map(|filesystem| {
            let ground = &filesystem.ground;
            json!({
                "filesystem": filesystem.name,
                "place": ground.in_words(),
                "counts_include_others": !ground.is_own_device(),
            })
        })
        .collect();
    json!({
        "rounds": flags.rounds,
        "seconds": flags.seconds.as_secs_f64(),
        "filesystems": filesystems,
        "settings": settings,
        "not_run": absent,
        "rows": rows,
    })
}
