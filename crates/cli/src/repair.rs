//! `logforce repair`.

use crate::directory;
use crate::exit::{End, Usage};
use crate::live::Source;
use crate::output::{Sink, Target, print};
use anyhow::{Context, anyhow, bail};
use logforce::Error;
use logforce::inspect::{Cut, RepairOptions, RepairReport};
use logforce_terminal::numbers::{bytes, count};
use serde::Serialize;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

const MORE: &str = "\
For a log that an opening refuses as damaged: ends the log before the damage, so that it opens again. The
damage and everything after it is removed, including acknowledged records. Records before it stay, and no
LSN is used again. First stop the program that has the log open, also for --dry-run, which takes the log's
lock. --dry-run says whether an opening refuses the log, what would be removed, and the size of the copies.

Before any change, it copies the control file and every segment from which it removes something into a
directory NAME.cut-ID-LSN beside the log. `logforce salvage` saves the readable records of the copies in a
new log, and `logforce dump --salvage` lists them. The copies stay until you remove them. The log's own
filesystem needs space for one more segment, even with --aside.

Damage far below the end, which `logforce verify` finds and an opening does not read, is not repaired:
save the log with `logforce salvage`. After a crash or an error, run repair again.

Exit status: 0 repaired, or an opening does not refuse the log; 1 a repair cannot mend the damage;
2 unusable arguments, or not confirmed; 4 failed: DIR is missing, its control file is missing, or the log is
in use, for example.";

/// Ends a damaged log before the damage.
#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub struct Args {
    /// The log's directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Make the directory with the copies in PARENT instead of beside the log
    #[arg(long, value_name = "PARENT")]
    aside: Option<PathBuf>,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    /// Only say what a repair would do; takes the log's lock
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Write the report as JSON to FILE; - is standard output
    #[arg(long, value_name = "FILE")]
    json: Option<Target>,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    schema: &'static str,
    version: u32,
    path: String,
    /// True if the log was repaired; false after --dry-run, and if there was nothing to repair.
    repaired: bool,
    cut: Option<CutInfo<'a>>,
    /// Damage for which the metadata was given up.
    metadata: Option<&'a str>,
    aside: Option<String>,
    bytes: u64,
    unread: u64,
    /// Other directories with copies.
    earlier: Vec<String>,
}

#[derive(Debug, Serialize)]
struct CutInfo<'a> {
    from: u64,
    to: u64,
    records: u64,
    case: &'static str,
    lsn: u64,
    file: Option<&'a str>,
    offset: u64,
    found: &'a str,
}

/// Repairs.
pub fn run(args: Args) -> anyhow::Result<End> {
    let dir = &args.dir;
    if directory::is_page_file(dir)? {
        bail!(Usage(format!(
            "{0} holds a page file, and `logforce repair` repairs only logs: a logged page file has its log \
             in {1}. `logforce verify {0}` lists the damage",
            dir.display(),
            dir.join("log").display()
        )));
    }
    let mut options = RepairOptions::new();
    if let Some(parent) = &args.aside {
        options = options.aside(parent);
    }
    let json = args.json.as_ref().map(Sink::open).transpose();
    let json = json.context("--json")?;
    let plan = logforce::inspect::repair(dir, &options.clone().dry_run(true));
    let plan = plan.map_err(|e| refused(e, dir))?;
    let nothing = plan.aside.is_none();
    let made = match nothing || args.dry_run {
        true => None,
        false => {
            if !args.yes {
                ask(dir, &plan)?;
            }
            let made = logforce::inspect::repair(dir, &options);
            Some(made.map_err(|e| refused(e, dir))?)
        }
    };
    let report = made.as_ref().unwrap_or(&plan);
    let said = match (nothing, made.is_some()) {
        (true, _) => format!(
            "nothing was repaired: {0} can be opened. If `logforce verify` reports damage, it lies below what \
             an opening reads: restore a backup, save the records with `logforce salvage {0} NEW`, or truncate \
             the front to above the damage\n{1}",
            dir.display(),
            earlier(report)
        ),
        (false, done) => text(report, done),
    };
    print(&said, args.json == Some(Target::Stdout))?;
    if let Some(sink) = json {
        let report = as_json(dir, report, made.is_some());
        let mut out = sink.writer()?;
        serde_json::to_writer_pretty(&mut out, &report)?;
        writeln!(out)?;
        out.flush()?;
    }
    Ok(End::Done)
}

/// Rewords the library's error for a log in use, which advises calls of the library.
fn refused(e: Error, dir: &Path) -> anyhow::Error {
    let Error::Locked { .. } = e else {
        return e.into();
    };
    let who = match process_with(dir) {
        Some(pid) => format!("probably by process {pid}"),
        None => "by a program".to_owned(),
    };
    anyhow!(
        "{} is open for writing already, {who}. Nothing was changed. Stop that program, then repeat the command",
        dir.display()
    )
}

/// Returns the id of the process that has the log open, if it has written statistics.
fn process_with(dir: &Path) -> Option<u64> {
    let inspector = logforce::inspect::open(dir).ok()?;
    let (live, summary) = (inspector.live()?, inspector.summary());
    (Source::of(&live, &summary) == Source::Running).then_some(live.pid)
}

/// Asks on the terminal. Returns an error unless the answer is yes.
fn ask(dir: &Path, plan: &RepairReport) -> anyhow::Result<()> {
    let mut terminal = io::stderr();
    if !io::stdin().is_terminal() || !terminal.is_terminal() {
        bail!(Usage(format!(
            "not confirmed, and there is no terminal to ask on: --yes repairs {}, --dry-run says what a repair would do",
            dir.display()
        )));
    }
    write!(
        terminal,
        "{}Repair {}? [y/N] ",
        text(plan, false),
        dir.display()
    )?;
    terminal.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => bail!(Usage("nothing was changed".to_owned())),
    }
}

/// Describes what was done or would be done.
fn text(report: &RepairReport, done: bool) -> String {
    let mut text = String::new();
    if let Some(Cut {
        from,
        to,
        damage,
        records,
        ..
    }) = &report.cut
    {
        let ends = match done {
            true => {
                format!("ends at LSN {from}, and goes on at LSN {to}. What lies between is removed")
            }
            false => format!("would end at LSN {from}. What follows would be removed"),
        };
        text += &format!(
            "{damage}\nthe log {ends}, acknowledged records too: {} can still be read, in the copies; others may be \
             lost\n",
            count(*records, "whole record")
        );
    }
    if let Some(damage) = &report.lost_meta {
        let gives = match done {
            true => "was given up: the log has none now",
            false => "would be given up",
        };
        text += &format!("{damage}\nthe metadata {gives}\n");
    }
    if report.cut.is_none() && report.lost_meta.is_none() && report.aside.is_some() {
        text += match done {
            true => "unused segments were missing and have been created again\n",
            false => "unused segments are missing and would be created again\n",
        };
    }
    if let Some(aside) = &report.aside {
        let kept = match done {
            true => "copies",
            false => "copies would be kept",
        };
        text += &format!("{kept} ({}) in {}\n", bytes(report.bytes), aside.display());
    }
    text += &earlier(report);
    if report.unread > 0 {
        text += &format!(
            "{} could not be read: the copies have zeroes there\n",
            bytes(report.unread)
        );
    }
    if done
        && report.cut.as_ref().is_some_and(|cut| cut.records > 0)
        && let Some(aside) = &report.aside
    {
        text += &format!("save them: logforce salvage {} NEW\n", aside.display());
    }
    text
}

/// Lists the copies of earlier repairs, one in each line.
fn earlier(report: &RepairReport) -> String {
    let others = others(report).into_iter();
    others
        .map(|other| format!("copies of an earlier repair: {other}\n"))
        .collect()
}

/// Returns the directories with copies except the one of this repair.
fn others(report: &RepairReport) -> Vec<String> {
    let others = report.earlier.iter();
    let others = others.filter(|other| report.aside.as_ref() != Some(other));
    others.map(|path| path.display().to_string()).collect()
}

fn as_json<'a>(dir: &Path, report: &'a RepairReport, repaired: bool) -> Report<'a> {
    Report {
        schema: "logforce-repair",
        version: 1,
        path: dir.display().to_string(),
        repaired,
        cut: report.cut.as_ref().map(|cut| CutInfo {
            from: cut.from.0,
            to: cut.to.0,
            records: cut.records,
            case: cut.damage.case.label(),
            lsn: cut.damage.lsn.0,
            file: cut.damage.file.as_deref(),
            offset: cut.damage.offset,
            found: &cut.damage.found,
        }),
        metadata: report
            .lost_meta
            .as_ref()
            .map(|damage| damage.found.as_str()),
        aside: report
            .aside
            .as_ref()
            .map(|aside| aside.display().to_string()),
        bytes: report.bytes,
        unread: report.unread,
        earlier: others(report),
    }
}
