//! `cargo bench -p logforce-measure --bench group`: what `logforce bench group` measures, with its
//! defaults. It measures the disk of the current directory, or of `--dir DIR`, or of
//! `LOGFORCE_BENCH_DIR`; the system's directory for temporary files is often in memory.

use clap::Parser;
use logforce_device::System;
use logforce_device_os::{OsSystem, machine};
use logforce_measure::counters::NoCounters;
use logforce_measure::group::report::text;
use logforce_measure::group::{Options, Setup, run};
use logforce_measure::machine::{Host, Machine};
use logforce_measure::progress::Silent;
use logforce_measure::space::Space;
use logforce_measure::workplace::Workplace;
use logforce_measure::{Interrupt, MeasureError, table};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Group commit: the log beside a simple group commit and a raw loop.
#[derive(Parser)]
struct Args {
    /// Directory on the disk to measure; a temporary directory is made in it and removed
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Pairs of slices in each case
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,
    /// How long a slice takes, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 250, value_parser = clap::value_parser!(u64).range(1..))]
    slice: u64,
    /// Given by cargo bench, and not by cargo test
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    if !args.bench {
        println!("nothing is measured in a test");
        return Ok(());
    }
    let parent = args
        .dir
        .or_else(|| std::env::var_os("LOGFORCE_BENCH_DIR").map(PathBuf::from))
        .unwrap_or_else(|| PathBuf::from("."));
    let interrupt = Interrupt::new();
    let flag = interrupt.clone();
    ctrlc::set_handler(move || {
        flag.raise();
    })?;
    let system = Arc::new(OsSystem::new());
    let place = Workplace::create(&*system, &parent)?;
    let host = machine();
    let host = Host {
        os: host.system,
        kernel: host.kernel,
        arch: host.architecture,
        cpus: host.cpus,
    };
    let facts = system.directory(place.path())?.facts()?;
    let setup = Setup {
        system,
        path: place.path().to_owned(),
        space: Space::at(place.path())?,
        counters: Rc::new(NoCounters),
        interrupt,
        progress: Rc::new(Silent),
    };
    let options = Options {
        pairs: args.pairs,
        slice: Duration::from_millis(args.slice),
        ..Options::default()
    };
    match run(&options, &setup) {
        Err(MeasureError::Interrupted) => println!("interrupted before anything was measured"),
        outcome => print!(
            "{}",
            text(&outcome?, &Machine::new(&facts, host), table::WIDTH)
        ),
    }
    Ok(())
}
