//! The command: reads the flags, runs the measurements and prints them.

use super::flags::Flags;
use super::report::{self, TreeRow};
use super::rounds;
use super::store::Store;
use super::stores::{self, LOGFORCE};
use crate::place::{self, Line};
use crate::rivals::Ground;
use anyhow::{Result, bail};
use clap::Parser;
use logforce_measure::Interrupt;
use logforce_terminal::numbers::count;
use serde_json::json;
use std::process::ExitCode;

/// Reads the flags, runs all stores and prints the table.
pub fn main() -> ExitCode {
    let flags = Flags::parse();
    place::run("tree", |interrupt| compare(&flags, &interrupt))
}

/// Runs all rounds; returns true if no store failed.
fn compare(flags: &Flags, interrupt: &Interrupt) -> Result<bool> {
    let (stores, absent) = stores::all();
    for name in &flags.only {
        if stores.iter().all(|s| s.name() != name) {
            let names: Vec<&str> = stores.iter().map(|s| s.name()).collect();
            bail!(
                "unknown store `{name}`: this build has {}",
                names.join(", ")
            );
        }
    }
    let is_chosen = |name: &str| {
        name == LOGFORCE || flags.only.is_empty() || flags.only.iter().any(|n| n == name)
    };
    let stores: Vec<&dyn Store> = stores
        .iter()
        .map(|store| &**store)
        .filter(|store| is_chosen(store.name()))
        .collect();
    let own_device = flags.own_device.as_deref();
    let ground = Ground::new(
        &flags.common.dir,
        own_device.map(|kind| (kind, flags.loop_size)),
    )?;
    println!(
        "{}, slices of {:?}, {} keys of 16 bytes with values of {} bytes, {}\n",
        count(flags.rounds, "round"),
        flags.seconds,
        flags.keys,
        flags.value,
        ground.in_words()
    );
    let lines = rounds::all(&stores, flags, &ground, interrupt, &Line)?;
    Line.clear();
    if interrupt.is_raised() {
        println!("interrupted: only complete rounds count");
    }
    let rows = report::rows(&stores, &lines);
    print!("{}", report::table(&rows));
    print!("{}", report::below(&stores, &absent, &rows));
    flags
        .common
        .write(&as_json(flags, &ground, &stores, &absent, &rows))?;
    Ok(rows.iter().all(|row| row.error.is_none()))
}

fn as_json(
    flags: &Flags,
    ground: &Ground,
    stores: &[&dyn Store],
    absent: &[&str],
    rows: &[TreeRow],
) -> serde_json::Value {
    let settings: Vec<_> = stores
        .iter()
        .map(|store| {
            json!({
                "store": store.name(),
                "version": store.version(),
                "settings": store.settings(),
            })
        })
        .collect();
    json!({
        "rounds": flags.rounds,
        "seconds": flags.seconds.as_secs_f64(),
        "keys": flags.keys,
        "value": flags.value,
        "place": ground.in_words(),
        "settings": settings,
        "not_run": absent,
        "rows": rows,
    })
}
