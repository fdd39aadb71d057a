//! `logforce bench`: scenarios, each with flags of its own. Without a name it is `journal`.

pub mod common;
mod group;
mod journal;
pub mod os;
mod pairs;

use crate::exit::End;
use clap::Subcommand;

const MORE: &str = "\
Examples:
  logforce bench                            about half a minute, on the disk of this directory
  logforce bench --dir /data --full         as published: 65,536 commits of 16 KiB for each row
  logforce bench --method fdatasync,direct+dsync --file-state zeroed --json -
  logforce bench pairs                      the library against a raw loop, pair by pair
  logforce bench group                      many threads: what each device write carries

Files are made in a temporary directory and removed. Ctrl-C prints what was measured until then.
A tenth of the disk is always left free.";

/// Measures one scenario.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, after_help = MORE)]
pub struct Args {
    #[command(flatten)]
    journal: journal::Args,
    #[command(subcommand)]
    scenario: Option<Scenario>,
}

#[derive(Debug, Subcommand)]
enum Scenario {
    /// A pre-sized file and one commit per chunk, for every method in each file state; then
    /// through the log (the default).
    Journal(journal::Args),
    /// The library against a raw loop that writes the same bytes, in pairs of slices; recovery and
    /// memory. Each result stands beside its target.
    Pairs(pairs::Args),
    /// Many threads that commit, few that submit: beside a simple group commit and a raw loop of as
    /// many threads, in slices that take turns. Each result stands beside its target.
    Group(group::Args),
    /// What `pairs` does in processes of its own.
    #[command(hide = true, name = pairs::CHILD)]
    PairsChild {
        /// As JSON.
        task: String,
    },
}

/// Runs the scenario asked for.
pub fn run(args: Args) -> anyhow::Result<End> {
    match args.scenario {
        None => journal::run(args.journal),
        Some(Scenario::Journal(args)) => journal::run(args),
        Some(Scenario::Pairs(args)) => pairs::run(args),
        Some(Scenario::Group(args)) => group::run(args),
        Some(Scenario::PairsChild { task }) => {
            logforce_measure::pairs::child::run(&task)?;
            Ok(End::Done)
        }
    }
}
