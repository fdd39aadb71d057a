//! `logforce bench`: scenarios, each with flags of its own. Without a name it is `journal`.

mod journal;
mod os;

use crate::exit::End;
use clap::Subcommand;

/// Measures one scenario.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(flatten)]
    journal: journal::Args,
    #[command(subcommand)]
    scenario: Option<Scenario>,
}

#[derive(Debug, Subcommand)]
enum Scenario {
    /// A pre-sized file and one commit per chunk, for every method in each file state (the
    /// default).
    Journal(journal::Args),
}

/// Runs the scenario asked for.
pub fn run(args: Args) -> anyhow::Result<End> {
    match args.scenario {
        None => journal::run(args.journal),
        Some(Scenario::Journal(args)) => journal::run(args),
    }
}
