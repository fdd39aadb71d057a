//! The `logforce` command.

mod bench;
mod exit;
mod output;
mod progress;
mod signal;
mod size;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// A fast, truthful transaction log: measure what a commit costs on a disk, and look into logs.
#[derive(Debug, Parser)]
#[command(name = "logforce", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure what each commit method costs on this disk, and what it is worth.
    Bench(bench::Args),
}

fn main() -> ExitCode {
    // Unusable arguments end the process here, with status 2.
    let result = match Cli::parse().command {
        Command::Bench(args) => bench::run(args),
    };
    exit::code(result)
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::{CommandFactory, Parser};

    #[test]
    fn the_grammar_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_work_with_and_without_the_name_of_the_scenario() {
        for words in [
            "bench",
            "bench --size 1MiB --full",
            "bench journal --size 1MiB --full --json -",
        ] {
            let parsed = Cli::try_parse_from(["logforce"].into_iter().chain(words.split(' ')));
            assert!(parsed.is_ok(), "{words}: {parsed:?}");
        }
        for words in [
            "",
            "bench nosuch",
            "bench --size 0",
            "bench --full --seconds 3",
            "bench --seconds -1",
        ] {
            let parsed =
                Cli::try_parse_from(["logforce"].into_iter().chain(words.split_whitespace()));
            assert!(parsed.is_err(), "{words}: {parsed:?}");
        }
    }
}
