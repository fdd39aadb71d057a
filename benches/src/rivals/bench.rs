//! The command: reads the flags, runs the measurements and prints them.

use super::document::Document;
use super::filesystem;
use super::flags::Flags;
use super::report::{self, RivalRow};
use super::rival::Entry;
use super::rival::Rival;
use super::subjects::{self, LOGFORCE, RAW};
use super::{bulk, markdown, rounds, table};
use crate::place::{self, Line};
use anyhow::{Result, bail};
use clap::Parser;
use logforce_measure::Interrupt;
use logforce_terminal::numbers::count;
use std::process::ExitCode;

/// Reads the flags, runs all rivals and prints the tables.
pub fn main() -> ExitCode {
    if let Some(task) = bulk::child::task() {
        return bulk::child::main(&task);
    }
    let flags = Flags::parse();
    place::run("rivals", |interrupt| compare(&flags, &interrupt))
}

/// Measures, or reads earlier results, and prints them. Returns true if no rival failed or lost a
/// record.
fn compare(flags: &Flags, interrupt: &Interrupt) -> Result<bool> {
    let document = if flags.merge.is_empty() {
        markdown::check(&flags.markdown, &flags.filesystems.names)?;
        measure(flags, interrupt)?
    } else {
        Document::read(&flags.merge)?
    };
    let rows = report::rows(&document.commits);
    let bulk_rows = bulk::rows(&document.bulk);
    for filesystem in &document.filesystems {
        print!("{}", table::tables(filesystem, &rows));
    }
    for filesystem in &document.filesystems {
        print!("{}", bulk::tables(filesystem, &bulk_rows));
    }
    print!("{}", table::below(&document, &rows));
    print!("{}", bulk::below(&document.bulk, &bulk_rows));
    if interrupt.is_raised() {
        bail!("interrupted: only complete rounds count, and no file was written");
    }
    flags.common.write(&document)?;
    markdown::replace(&flags.markdown, &document)?;
    Ok(rows.iter().all(is_well) && bulk_rows.iter().all(bulk::BulkRow::is_well))
}

/// Runs all rounds.
///
/// # Errors
/// If the flags name an unknown rival, or a filesystem cannot be created.
pub fn measure(flags: &Flags, interrupt: &Interrupt) -> Result<Document> {
    let entries = chosen(flags)?;
    let rivals: Vec<&dyn Rival> = entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Here(rival) => Some(&**rival),
            Entry::Absent { .. } => None,
        })
        .collect();
    let filesystems = filesystem::all(&flags.common.dir, &flags.filesystems)?;
    let mut document = Document::new(flags, &filesystems, &rivals, &entries)?;
    println!(
        "{} of {:?} each",
        count(flags.rounds, "round"),
        flags.seconds
    );
    for filesystem in &filesystems {
        println!("- {}", filesystem.ground.in_words());
    }
    let lines = rounds::all(&rivals, flags, &filesystems, interrupt, &Line);
    document.commits = lines.into_iter().map(report::Measured::from).collect();
    if flags.bulk > 0 {
        let subjects = bulk::of(&rivals, &std::env::current_exe()?);
        let lines = bulk::all(&subjects, flags, &filesystems, interrupt, &Line);
        let measured = |line| bulk::Measured::new(line, flags.bulk);
        document.bulk = lines.into_iter().map(measured).collect();
    }
    Line.clear();
    Ok(document)
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
