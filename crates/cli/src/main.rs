//! The `logforce` command.

#![forbid(unsafe_code)]

mod advise;
#[cfg(feature = "archive")]
mod archive;
mod backup;
mod bench;
mod calibrate;
mod charts;
mod compare;
mod completions;
#[cfg(target_os = "linux")]
mod crashtest;
mod directory;
mod doctor;
mod dump;
mod exit;
mod listing;
mod live;
mod log_args;
mod output;
mod pages;
mod powercut;
mod progress;
mod repair;
mod report;
mod salvage;
mod signal;
mod stat;
mod verify;
mod watch;

use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

/// Measure what a commit costs on a disk and what it guarantees; inspect, check and back up logs and
/// page files; salvage or repair a damaged log.
#[derive(Debug, Parser)]
#[command(name = "logforce", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Cli {
    /// Print only errors and the requested data (--json, --csv, --report)
    #[arg(long, short, global = true)]
    quiet: bool,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  logforce bench                      what does a commit cost on the disk of this directory?
  logforce bench --dir /data --json - | jq .conclusion
  logforce bench --report disk.html   the same as an HTML page with charts
  logforce bench --for etcd --dir /data   is that disk fast and safe enough for etcd? (also postgresql, redis, …)
  logforce compare old.json new.json  is this disk, kernel or version faster than that one?
  logforce doctor /data               what does a commit survive there, by whose word, and what to do?
  logforce advise --for postgresql --config postgresql.conf   which settings do not survive a loss of power?
  logforce calibrate --dir /data      which commit method do logs use there, and why?
  logforce watch --dir /data          how long do commits take from now on, and when does the disk stall?
  logforce verify sales.log           is every acknowledged record still there?
  logforce dump sales.log --limit 20  what is in it?
  logforce salvage sales.log saved    copy what can be read of a damaged log into a new one
  logforce repair sales.log           end a damaged log before the damage, so that it opens again

`stat`, `verify`, `dump`, `salvage` and `backup` of a log neither lock nor change what they read: a
program may have it open meanwhile. `repair`, and `backup` of a page file, need it closed. `doctor
--passive` writes nothing; `calibrate` stores its result; `bench`, `watch` and `powercut` write to the directory that they
are given.
Exit status: 0 done, 1 damage found (compare: slower than accepted, or not comparable; bench --for: not fit;
doctor: not durable), 2 unusable arguments, 3 inconclusive (powercut, bench --for, compare, doctor), 4 failed, for example
because a directory is missing or cannot be read, 130 interrupted.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the settings of a database or another system to use on this disk, or judge those in force.
    Advise(Box<advise::Args>),
    /// Keep a continuous copy of a log in object storage, and restore it to any position or time.
    #[cfg(feature = "archive")]
    Archive(archive::Args),
    /// Copy a log that may be in use, or a page file that no program has open, into a new one.
    Backup(backup::Args),
    /// Measure what each commit method costs on this disk, and what it guarantees.
    Bench(Box<bench::Args>),
    /// Compare two results of `bench`, row by row: which differences are beyond the noise?
    Compare(compare::Args),
    /// Test whether what a program acknowledges survives a power cut (Linux, as root).
    #[cfg(target_os = "linux")]
    Crashtest(Box<crashtest::Args>),
    /// Print a script that completes commands and flags in your shell.
    Completions(completions::Completions),
    /// Print the manual page, or write the pages of all commands into a directory.
    Man(completions::Man),
    /// Show which commit method logs use on this disk, and why; measure if that is not known.
    Calibrate(calibrate::Args),
    /// Examine the storage below a directory, a file or a device layer by layer: what does a commit survive
    /// there, by whose word, and what is to be done?
    #[command(alias = "facts")]
    Doctor(doctor::Args),
    /// List the batches and records of a log, or the pages of a page file, and what is damaged.
    Dump(dump::Args),
    /// Read and check a whole log or page file; exits with 1 if something is damaged.
    Verify(verify::Args),
    /// Test with real power cuts whether this disk keeps what a log acknowledged.
    Powercut(powercut::Args),
    /// Turn a result of `bench` into an HTML page with charts, or into the charts alone.
    Report(report::Args),
    /// End a damaged log before the damage, so that it opens again.
    Repair(repair::Args),
    /// Copy all records that can be read of a damaged log into a new one.
    Salvage(salvage::Args),
    /// Show the state, size and statistics of a log or page file, without reading its contents.
    Stat(stat::Args),
    /// Commit once a second for weeks beside other work, and report the latencies and stalls of the disk.
    Watch(watch::Args),
}

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    if let Some(played) = logforce_crashtest::role::play() {
        return exit::code(played.map(|()| exit::End::Done));
    }
    let cli: Cli = completions::parsed();
    if cli.quiet {
        output::be_quiet();
    }
    let result = match cli.command {
        Command::Advise(args) => advise::run(*args),
        #[cfg(feature = "archive")]
        Command::Archive(args) => archive::run(args),
        Command::Backup(args) => backup::run(args),
        Command::Bench(args) => bench::run(*args),
        Command::Compare(args) => compare::run(args),
        #[cfg(target_os = "linux")]
        Command::Crashtest(args) => crashtest::run(*args),
        Command::Completions(args) => completions::completions(args, Cli::command()),
        Command::Man(args) => completions::man(args, Cli::command()),
        Command::Calibrate(args) => calibrate::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Dump(args) => dump::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Powercut(args) => powercut::run(args),
        Command::Report(args) => report::run(args),
        Command::Repair(args) => repair::run(args),
        Command::Salvage(args) => salvage::run(args),
        Command::Stat(args) => stat::run(args),
        Command::Watch(args) => watch::run(args),
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
            "bench --sweep",
            "bench --for etcd --dir x --json - --commits 9",
            "bench --for mongodb --beside-write 50MB/s --beside y",
            "bench journal --sweep --depths 1,64 --chunks 512,1MiB --seconds 5 --size 1GiB --method buffered",
            "bench pages",
            "bench map x --size 2G --pages 4 --json -",
            "bench map --quick",
            "bench inserts",
            "bench inserts x --pairs 100 --clients 1,4 --seconds 0.5 --csv -",
            "bench pages x --pages 1,2 --cached --csv -",
            "bench pages --dir x --rounds 2",
            "calibrate",
            "calibrate --dir x --again --seconds 1.5 --json -",
            "watch x --interval 0.1 --size 8KiB --stall 1 --csv a --json - --listen 9750",
            "watch --dir x --listen 0.0.0.0:9750 --allow-remote",
            "facts",
            "doctor x --json - --cache y",
            "doctor --passive --report -",
            "doctor --ask",
            "advise --for postgresql",
            "advise --for redis --survive os-crash --config x d --json -",
            "powercut witness --listen [::1]:0 --store x",
            "powercut write --witness h:1 d --for 30s --control direct --method buffered",
            "powercut check --witness h d --run 0123456789abcdef0123456789abcdef --json -",
        ] {
            let parsed = Cli::try_parse_from(["logforce"].into_iter().chain(words.split(' ')));
            assert!(parsed.is_ok(), "{words}: {parsed:?}");
        }
        for words in [
            "",
            "bench nosuch",
            "bench x --dir y",
            "bench --size 0",
            "bench --full --seconds 3",
            "bench --seconds -1",
            "bench --sweep --full",
            "bench --sweep --chunk 4k",
            "bench --sweep --file-state zeroed",
            "bench --sweep --depths 0",
            "bench --sweep --depths 1000",
            "bench --depths 1",
            "bench --for",
            "bench --for nosuch",
            "bench --for etcd --chunk 4k",
            "bench --for etcd --report x",
            "bench --for etcd journal",
            "bench --for etcd --beside-write 0",
            "bench --for etcd --commits 0",
            "bench --beside x",
            "bench --commits 9",
            "bench journal --chunks 4k",
            "bench pages x --dir y",
            "bench pages --pages 0",
            "bench inserts --pairs 0",
            "bench inserts --clients 0",
            "bench map --quick --size 1GiB",
            "calibrate --seconds 3",
            "doctor --ask --passive",
            "watch x --dir y",
            "watch --interval 0",
            "watch --allow-remote",
            "advise x",
            "advise --for redis --config x --url y",
            "powercut write d",
            "powercut write --witness h d --control fsync",
            "powercut write --witness h d --committers 0",
            "powercut check --witness h d --run 12",
            "calibrate --again --seconds 0",
        ] {
            let parsed =
                Cli::try_parse_from(["logforce"].into_iter().chain(words.split_whitespace()));
            assert!(parsed.is_err(), "{words}: {parsed:?}");
        }
    }
}
