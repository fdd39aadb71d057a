//! `logforce bench`: scenarios, each with its own flags. The default scenario is `journal`.

pub mod common;
mod group;
mod inserts;
mod journal;
mod map;
pub mod os;
mod pages;
mod place;
mod places;
mod preflight;
mod run;
mod sweep;

use crate::exit::End;
use clap::Subcommand;
use logforce_device::Platform;

/// Returns the examples, with methods that `platform` has.
fn more(platform: Platform) -> String {
    let methods = format!("buffered,{}", platform.first_choice());
    format!(
        "\
Examples:
  logforce bench                            about half a minute, on the disk of this directory
  logforce bench /data --all                the same there, with every table and note
  logforce bench --dir /data --full         as published: 65,536 commits of 16 KiB for each row
  logforce bench --dir /data --dir /backup  two directories in turns: which one commits faster?
  logforce bench --method {methods} --file-state zeroed --json -
  logforce bench --sweep --dir /data        a minute: how many writes in flight pay off, at which size?
  logforce bench --sweep --method {methods} --chunks 4k,64k --depths 1,8,64
  logforce bench group                      commits to one log by many threads: how many share a write?
  logforce bench group --threads 8 --records 400
  logforce bench pages /data                from how many pages on is one barrier cheaper?
  logforce bench map /data --size 8GiB      small commits to a large file: mmap, writes, page files
  logforce bench --for etcd --dir /data     is that disk fast and safe enough for etcd? 0 yes, 1 no
  logforce bench --for postgresql --beside-write 50MB/s
  logforce bench inserts /data              500 sales, committed one by one: what does that cost?

Files are created in a temporary directory and removed. Ctrl-C ends the run and prints its results so far.
A tenth of the disk always stays free; on a large disk, 8 GiB."
    )
}

/// Measures one scenario.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, after_help = more(Platform::HERE))]
pub struct Args {
    #[command(flatten)]
    journal: journal::Args,
    #[command(flatten)]
    preflight: preflight::Args,
    #[command(subcommand)]
    scenario: Option<Scenario>,
}

#[derive(Debug, Subcommand)]
enum Scenario {
    /// Write a pre-sized file with one commit per chunk, for every method in each file state; then
    /// commit through the log (the default).
    Journal(journal::Args),
    /// Commit to one log by N threads, with the given numbers of threads and record sizes.
    Group(group::Args),
    /// Commit N pages and a header, written through or forced by one barrier: from how many pages on
    /// is the barrier cheaper?
    Pages(pages::Args),
    /// Commit small changes to large files: in a mapping that is synced, written in sorted runs, or by
    /// page files. Shows wall-clock time and system CPU time for each file size.
    Map(map::Args),
    /// Commit inserts one by one by N clients: forced at each commit, only written, or left for later;
    /// with and without a second log. Shows what durability costs, in the log and in databases.
    Inserts(inserts::Args),
}

/// Runs the chosen scenario.
pub fn run(args: Args) -> anyhow::Result<End> {
    match args.scenario {
        None if args.preflight.is_asked_for() => {
            let dir = args.journal.place.only("--for")?;
            preflight::run(&args.preflight, dir, args.journal.files.json())
        }
        None => journal_or_sweep(args.journal),
        Some(Scenario::Journal(args)) => journal_or_sweep(args),
        Some(Scenario::Group(args)) => group::run(args),
        Some(Scenario::Pages(args)) => pages::run(args),
        Some(Scenario::Map(args)) => map::run(args),
        Some(Scenario::Inserts(args)) => inserts::run(args),
    }
}

fn journal_or_sweep(args: journal::Args) -> anyhow::Result<End> {
    match args.sweep.is_asked_for() {
        true => sweep::run(&args),
        false => journal::run(args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logforce_device::Method;

    #[test]
    fn the_example_names_methods_of_the_system() {
        for platform in Platform::ALL {
            let help = more(platform);
            let (_, rest) = help.split_once("--method ").unwrap();
            let named: Vec<Method> = rest
                .split_whitespace()
                .next()
                .unwrap()
                .split(',')
                .map(|m| m.parse().unwrap())
                .collect();
            assert_eq!(named.len(), 2);
            assert!(named.iter().all(|m| m.is_of(platform)), "{named:?}");
        }
    }
}
