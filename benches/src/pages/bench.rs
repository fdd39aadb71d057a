//! The command: runs all stores in turns.

use super::case::{self, Case, PAGE};
use super::flags::Flags;
use super::report::{self, Line};
use super::slice::{PageSlice, run};
use super::store::{Layout, PageStore};
use super::subjects::{self, PLAIN};
use crate::place::{self, Line as Shown};
use crate::rivals::Ground;
use anyhow::{Context, Result, bail};
use clap::Parser;
use logforce_measure::Interrupt;
use logforce_terminal::numbers::count;
use logforce_terminal::progress::Progress;
use serde_json::json;
use std::process::ExitCode;

/// Reads the flags, runs all stores and prints the tables.
pub fn main() -> ExitCode {
    let flags = Flags::parse();
    place::run("pages", |interrupt| compare(&flags, &interrupt))
}

fn compare(flags: &Flags, interrupt: &Interrupt) -> Result<bool> {
    let stores = chosen(flags)?;
    let cases = cases(flags)?;
    let kind = flags.own_device.as_deref();
    let ground = Ground::new(&flags.common.dir, kind.map(|kind| (kind, flags.loop_size)))?;
    let layout = Layout {
        pages: flags.size / PAGE as u64,
        distance: flags.distance,
        cache: flags.cache,
    };
    println!(
        "{} of {:?} each, {}",
        count(flags.rounds, "round"),
        flags.seconds,
        ground.in_words()
    );
    let mut homes = Vec::new();
    for store in &stores {
        homes.push(ground.fresh(store.name())?);
    }
    let mut lines: Vec<Line> = Vec::new();
    for &case in &cases {
        let first = lines.len();
        lines.extend(stores.iter().map(|store| Line {
            store: store.name(),
            case,
            rounds: Vec::new(),
        }));
        for round in 0..flags.rounds {
            for (n, store) in stores.iter().enumerate() {
                // The order changes from round to round.
                let turn = (n + round as usize) % stores.len();
                let (store, turn) = match round % 2 {
                    0 => (store, n),
                    _ => (&stores[turn], turn),
                };
                Shown.doing(&format!(
                    "{}: round {}, {}",
                    case.name(),
                    round + 1,
                    store.name()
                ));
                let seen = one(
                    &**store,
                    homes[turn].path(),
                    case,
                    layout,
                    flags,
                    &ground,
                    interrupt,
                );
                let seen = seen.with_context(|| format!("{}, {}", store.name(), case.name()))?;
                if interrupt.is_raised() {
                    Shown.clear();
                    bail!("interrupted");
                }
                lines[first + turn].rounds.push(seen);
            }
        }
        Shown.clear();
        print!("{}", report::tables(&report::rows(&lines[first..], PLAIN)));
    }
    println!("\nSettings");
    for store in &stores {
        println!("- {}: {}", store.name(), store.settings());
    }
    flags.common.write(&json!({
        "rounds": flags.rounds,
        "seconds": flags.seconds.as_secs_f64(),
        "size": flags.size,
        "distance": flags.distance,
        "place": ground.in_words(),
        "rows": report::rows(&lines, PLAIN),
    }))?;
    Ok(true)
}

fn one(
    store: &dyn PageStore,
    dir: &std::path::Path,
    case: Case,
    layout: Layout,
    flags: &Flags,
    ground: &Ground,
    interrupt: &Interrupt,
) -> Result<PageSlice> {
    let open = store.open(dir, layout).context("open")?;
    // Writes back dirty data of other programs and of the file's creation before the measurement.
    rustix::fs::syncfs(&std::fs::File::open(dir)?)?;
    run(
        &*open,
        case,
        layout,
        flags.seconds,
        &ground.counters(),
        interrupt,
    )
}

fn chosen(flags: &Flags) -> Result<Vec<Box<dyn PageStore>>> {
    let mut stores = subjects::all();
    let names: Vec<_> = stores.iter().map(|s| s.name()).collect();
    if let Some(unknown) = flags.only.iter().find(|o| !names.contains(&o.as_str())) {
        bail!("unknown store `{unknown}`: known are {}", names.join(", "));
    }
    if !flags.only.is_empty() {
        stores.retain(|s| s.name() == PLAIN || flags.only.iter().any(|o| o == s.name()));
    }
    Ok(stores)
}

fn cases(flags: &Flags) -> Result<Vec<Case>> {
    let mut cases = case::all();
    if !flags.cases.is_empty() {
        cases.retain(|c| {
            flags
                .cases
                .iter()
                .any(|part| c.name().contains(part.as_str()))
        });
    }
    if cases.is_empty() {
        let names: Vec<_> = case::all().iter().map(Case::name).collect();
        bail!("unknown case: known are {}", names.join(", "));
    }
    Ok(cases)
}
