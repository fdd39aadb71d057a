//! Command-line flags and output.

use super::case::{Case, all};
use super::contender::{register, sync_call};
use super::report::{Row, rows, table};
use super::rounds;
use super::turn::Effort;
use crate::embedded::sqlite;
use crate::place::{self, Common, Line};
use crate::rivals::filesystem::{self, Filesystems};
use anyhow::{Result, bail};
use clap::Parser;
use logforce_measure::Interrupt;
use logforce_terminal::arguments;
use logforce_terminal::numbers::count;
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;

/// Compares SQLite through the VFS `logforce` with the same SQLite through its VFS `unix`. The contenders
/// of each case take turns; the ratios compare rates of the same round.
#[derive(Debug, Parser)]
#[command(name = "sqlite")]
struct Flags {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    filesystems: Filesystems,
    /// Cases whose name has all words, such as `wal full 8-conn`; several choices are separated by commas
    #[arg(long, value_name = "WORDS", value_delimiter = ',')]
    only: Vec<String>,
    /// Rounds, each with one turn of every contender in every case; medians are printed
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = arguments::within::<u32>(1, u32::MAX))]
    turns: u32,
    /// Duration of a turn, seconds
    #[arg(long, value_name = "S", default_value = "0.5", value_parser = arguments::seconds)]
    seconds: Duration,
    /// Number of operations in a turn, instead of its duration
    #[arg(long, value_name = "N", value_parser = arguments::within::<u64>(1, u64::MAX))]
    operations: Option<u64>,
    /// Also run stock SQLite a second time in each turn: its ratio is the noise
    #[arg(long)]
    control: bool,
    /// Print the names of the cases only
    #[arg(long)]
    list: bool,
}

impl Flags {
    /// Returns the chosen cases.
    fn cases(&self) -> Result<Vec<Case>> {
        let is_chosen = |case: &Case, choice: &str| {
            let words: Vec<&str> = case.name.split(' ').collect();
            choice.split_whitespace().all(|word| words.contains(&word))
        };
        let cases = all();
        let missing = |choice: &&String| !cases.iter().any(|c| is_chosen(c, choice));
        if let Some(unknown) = self.only.iter().find(missing) {
            bail!("no case has the words `{unknown}` in its name: --list prints all names");
        }
        let is_wanted =
            |c: &Case| self.only.is_empty() || self.only.iter().any(|choice| is_chosen(c, choice));
        Ok(cases.into_iter().filter(is_wanted).collect())
    }
}

/// Runs the bench.
pub fn main() -> ExitCode {
    let flags = Flags::parse();
    place::run("sqlite", |interrupt| compare(&flags, &interrupt))
}

/// Runs the comparison; returns true if no turn failed.
fn compare(flags: &Flags, interrupt: &Interrupt) -> Result<bool> {
    let cases = flags.cases()?;
    if flags.list {
        cases.iter().for_each(|case| println!("{}", case.name));
        return Ok(true);
    }
    register()?;
    let effort = Effort {
        time: flags.seconds,
        operations: flags.operations,
        rows: 100_000,
    };
    let filesystems = filesystem::all(&flags.common.dir, &flags.filesystems)?;
    println!(
        "SQLite {}, which syncs by {}",
        sqlite::version(),
        sync_call()
    );
    println!("{} of {:?} each", count(flags.turns, "turn"), flags.seconds);
    let amount = (flags.turns, effort);
    let groups = rounds::all(
        &cases,
        &filesystems,
        flags.control,
        amount,
        interrupt,
        &Line,
    );
    Line.clear();
    if interrupt.is_raised() {
        println!("interrupted: only complete turns count");
    }
    let rows = rows(&groups);
    for filesystem in &filesystems {
        println!("\n{}: {}\n", filesystem.title, filesystem.ground.in_words());
        println!("{}", table(&filesystem.name, &rows));
    }
    println!("\n{NOTES}");
    for row in &rows {
        if let Some(error) = &row.error {
            println!("FAILED: {}, {}: {error}", row.case, row.contender.name());
        }
    }
    flags.common.write(&json!({
        "command": place::command_line("sqlite"),
        "sqlite": sqlite::version(),
        "syncs_by": sync_call(),
        "interrupted": interrupt.is_raised(),
        "rows": rows,
    }))?;
    Ok(!interrupt.is_raised() && rows.iter().all(|r: &Row| r.error.is_none()))
}

const NOTES: &str = "Per second: commits, or the operations that the case names; medians of all turns. Rows have 100 \
bytes; 1-row is a commit of one. \
Ratio: to stock in the same turn, median, and in brackets 10th to 90th percentile. Each: per operation, \
as the device counts them; other programs on that device count too. After each turn, stock SQLite reads the \
database back and checks it.";

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(only: &str) -> Result<Vec<Case>> {
        Flags::try_parse_from(["sqlite", "--bench", "--only", only])?.cases()
    }

    #[test]
    fn words_choose_cases() {
        assert_eq!(chosen("checkpoint").unwrap().len(), 1);
        assert_eq!(chosen("wal full fresh,truncate").unwrap().len(), 8);
        assert_eq!(chosen("delete 20-row").unwrap().len(), 2);
        let message = chosen("wal,wals").unwrap_err().to_string();
        assert!(message.contains("`wals`"), "{message}");
        assert_eq!(
            Flags::parse_from(["sqlite"]).cases().unwrap().len(),
            all().len()
        );
    }
}
