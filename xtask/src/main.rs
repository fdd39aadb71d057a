//! The project's commands; `cargo xtask` lists them.

#![forbid(unsafe_code)]

mod check;
mod dist;
mod flagged;
mod fuzz;
mod guard;
mod platform;
mod powercut;
mod sim;
mod soak;
mod sqlite;
mod test;
mod workspace;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// The project's commands.
#[derive(Debug, Parser)]
#[command(
    bin_name = "cargo xtask",
    arg_required_else_help = true,
    max_term_width = 100
)]
struct Cli {
    #[command(subcommand)]
    command: Commands,
}

#[derive(Debug, Subcommand)]
enum Commands {
    /// Checks rules that the compiler does not: dependencies between crates, length of files, links of
    /// the documentation. Takes a second.
    Check,
    Test(test::Options),
    Soak(soak::Options),
    Platform(platform::Options),
    /// Runs random tests of a log on a simulated disk; `cargo xtask sim --help` has the options.
    #[command(disable_help_flag = true)]
    Sim(Passed),
    /// Turns known bugs on, one by one, and prints the random run that finds each.
    #[command(disable_help_flag = true)]
    Planted(Passed),
    /// Runs real power cuts on real filesystems, and process faults (as root, on Linux): `suite` (the
    /// default), `process`, `planted`; `cargo xtask powercut suite --help` has the options.
    #[command(disable_help_flag = true)]
    Powercut(Passed),
    Fuzz(fuzz::Options),
    BenchGuard(guard::Options),
    Dist(dist::Options),
    /// Builds the SQLite extension, and a wheel for Python that holds it, below `target/sqlite`.
    Sqlite,
    /// Writes the listing of the public API, `crates/logforce/public-api.txt`, which `check` compares.
    PublicApi,
    /// Counts bad openings of doc comments and words to avoid in each part, and commits counts that
    /// fell; `check` fails if one rises.
    Wording {
        /// Lists the places of this part instead.
        part: Option<String>,
    },
}

/// Arguments of another program.
#[derive(Debug, clap::Args)]
struct Passed {
    /// Arguments, passed on unchanged.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Commands::Check => check::command(),
        Commands::Test(options) => test::command(&options),
        Commands::Soak(options) => soak::command(&options),
        Commands::Platform(options) => platform::command(&options),
        Commands::Sim(passed) => sim::runs(&passed.words),
        Commands::Planted(passed) => sim::planted(&passed.words),
        Commands::Powercut(passed) => powercut::command(&passed.words),
        Commands::Fuzz(options) => fuzz::command(&options),
        Commands::BenchGuard(options) => guard::command(&options),
        Commands::Dist(options) => dist::command(&options),
        Commands::Sqlite => sqlite::command(),
        Commands::PublicApi => check::public_api::command(),
        Commands::Wording { part } => check::wording(part.as_deref()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_commands_fit_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn other_programs_get_their_words_as_they_are() {
        let cli = Cli::try_parse_from(["xtask", "sim", "--seed", "7"]).unwrap();
        assert!(matches!(cli.command, Commands::Sim(p) if p.words == ["--seed", "7"]));
    }
}
