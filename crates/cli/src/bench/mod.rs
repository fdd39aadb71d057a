//! `logforce bench`: scenarios, each with flags of its own. Without a name it is `journal`.

pub mod common;
mod group;
mod inserts;
mod journal;
mod map;
pub mod os;
mod pages;
mod run;
mod sweep;

use crate::exit::End;
use clap::Subcommand;
use logforce_device::Platform;

/// With an example of methods that `platform` has.
fn more(platform: Platform) -> String {
    let methods = format!("buffered,{}", platform.first_choice());
    format!(
        "\
Examples:
  logforce bench                            about half a minute, on the disk of this directory
  logforce bench --dir /data --full         as published: 65,536 commits of 16 KiB for each row
  logforce bench --method {methods} --file-state zeroed --json -
  logforce bench --sweep --dir /data        a minute: how many writes in flight pay, in which chunks?
  logforce bench --sweep --method {methods} --chunks 4k,64k --depths 1,8,64
  logforce bench group                      the log alone and by many threads: what a write carries
  logforce bench group --threads 8 --records 400
  logforce bench pages /data                from how many pages on is one barrier cheaper?
  logforce bench map /data --size 8GiB      small commits to a large file: mapped, written, ours
  logforce bench inserts /data              500 sales, committed one by one: what does that cost?

Files are made in a temporary directory and removed. Ctrl-C prints what was measured until then.
A tenth of the disk is always left free, of a large one 8 GiB."
    )
}

/// Measures one scenario.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, after_help = more(Platform::HERE))]
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
    /// Commits to one log by N threads: your numbers of threads, your sizes of records.
    Group(group::Args),
    /// Commits of N pages and a header: written through or forced by one barrier, and from how
    /// many pages on the barrier is cheaper.
    Pages(pages::Args),
    /// Small commits to large files: changed in a mapping and synced, written in sorted runs, or by
    /// our page files; wall clock and the system's processor time, by the size of the file.
    Map(map::Args),
    /// Inserts that are committed one by one by N clients, forced at each commit, written or left for
    /// later, with and without a second log: what durability costs, here and on databases.
    Inserts(inserts::Args),
}

/// Runs the scenario asked for.
pub fn run(args: Args) -> anyhow::Result<End> {
    match args.scenario {
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
