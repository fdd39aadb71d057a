//! `logforce crashtest`.

use crate::bench::common::one_place_each;
use crate::exit::{End, Usage};
use crate::output::{Sink, Target, complain, print, quoted};
use crate::progress::Bar;
use logforce_crashtest::model;
use logforce_crashtest::parts::Part;
use logforce_crashtest::plan::Plan;
use logforce_crashtest::program::{AckSource, Program};
use logforce_crashtest::report::{Report, Verdict};
use logforce_crashtest::test::{self, Progress as Step};
use logforce_crashtest::testbed::{Filesystem, enclosure, needs};
use logforce_terminal::arguments::{seconds, size, within};
use logforce_terminal::progress::Progress;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

const MORE: &str = "\
WORKLOAD works in the directory {} and prints a line after each operation that it holds durable, one write(2)
for each line. The write returns when the line is counted. `?TEXT` before an operation announces it: it may be
there after a cut or not. Lines that begin with # are ignored. WORKLOAD begins with what it finds, and is ended
by kill -9 when the power is cut.

CHECK is a line for sh. {} is the directory after the cut, {acked} a file with the acknowledged lines, which is
also its standard input; $CRASHTEST_BEGUN names a file with the announced ones. It exits with 0 if everything
acknowledged is there, and with 1 and a reason in the last line of its output if not. Any other end counts as
\"does not open\".

Example:
  logforce crashtest --check 'python3 check.py {} {acked}' -- python3 workload.py {}

The power is that of a disk in user space, below filesystems of this kernel. Needs root, FUSE and loop devices.
With --model it needs only strace: WORKLOAD is traced once, and the states are those of a model of its files.

Exit status: 0 nothing was lost, and CHECK noticed that a disk without flushes loses; 1 something was lost;
2 unusable arguments, or this machine failed; 3 the test proves nothing (the report says why); 77 something
that the test needs is missing here; 130 interrupted. After a loss the search for its cause may take several
times as long as the test: --no-explain.";

/// Exit status if something is missing on this machine, as test programs use it.
const SKIPPED: u8 = 77;
/// Exit status after Ctrl-C, as shells have it.
const INTERRUPTED: u8 = 130;
/// Largest number of cuts and of states: weeks.
const MOST: u64 = 1_000_000;

/// Test whether what a program acknowledges survives a power cut.
#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub struct Args {
    /// Compares what survived with what was acknowledged
    #[arg(long, value_name = "CHECK")]
    check: String,
    /// Filesystems to test on, one after the other
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "ext4,xfs"
    )]
    filesystem: Vec<Filesystem>,
    /// Number of power cuts on each filesystem
    #[arg(long, value_name = "N", value_parser = within(0, MOST), default_value = "30")]
    cuts: u64,
    /// Number of crash states, built from recorded runs, on each filesystem
    #[arg(long, value_name = "N", value_parser = within(0, MOST), default_value = "300")]
    states: u64,
    /// Test without root: trace the system calls, and build the states of a model of what may be lost
    #[arg(long, conflicts_with_all = ["filesystem", "cuts", "noise", "kill", "size"])]
    model: bool,
    /// A line for sh that creates what is there before the first cut
    #[arg(long, value_name = "COMMAND")]
    setup: Option<String>,
    /// Destination of the acknowledgements: stdout, file (the file $CRASHTEST_ACKS), or fd:N
    #[arg(long, value_name = "SOURCE", default_value = "stdout")]
    acks: AckSource,
    /// Writeback of files and journal by other programs meanwhile: all or none
    #[arg(long, value_name = "NOISE", default_value = "all", value_parser = ["all", "none"])]
    noise: String,
    /// End some sessions by kill -9 and start WORKLOAD again before the cut
    #[arg(long)]
    kill: bool,
    /// Do not look for the cause of losses
    #[arg(long)]
    no_explain: bool,
    /// Size of the disk; at least what the filesystem needs
    #[arg(long, value_name = "SIZE", value_parser = size)]
    size: Option<u64>,
    /// Longest time until the first acknowledgement, and of CHECK, seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "30")]
    patience: Duration,
    /// Seed of all random choices; when the power goes depends on the machine too
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the result to FILE as JSON (- is standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<Target>,
    /// Write the result to FILE as an HTML page (- is standard output)
    #[arg(long, value_name = "FILE")]
    html: Option<Target>,
    /// Keep the smallest case of each kind of loss in DIR: disk, lines, and a script that runs CHECK on it
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// The program to test, with its arguments
    #[arg(last = true, required = true, value_name = "WORKLOAD")]
    workload: Vec<OsString>,
}

impl Args {
    fn plan(&self) -> Result<Plan, Usage> {
        let names_dir = self.check.contains("{}") || self.check.contains("CRASHTEST_DIR");
        if !names_dir {
            return Err(Usage(
                "--check names no directory: it needs {} where the directory goes".to_owned(),
            ));
        }
        let cuts = if self.model { 0 } else { self.cuts };
        if cuts + self.states == 0 {
            return Err(Usage("--cuts 0 --states 0 would test nothing".to_owned()));
        }
        let mut filesystems = Vec::new();
        let wanted = match self.model {
            true => &[Filesystem::Model][..],
            false => &self.filesystem,
        };
        for filesystem in wanted {
            if !filesystems.contains(filesystem) {
                filesystems.push(*filesystem);
            }
        }
        let workload = Program::Arguments(self.workload.clone());
        let words = std::env::args_os().skip(1);
        let words = words.map(|word| quoted(word.to_string_lossy().into_owned()));
        let command: Vec<String> = ["logforce".to_owned()].into_iter().chain(words).collect();
        Ok(Plan {
            command: command.join(" "),
            filesystems,
            size: self.size,
            cuts,
            states: self.states,
            setup: self.setup.clone().map(Program::Shell),
            acks: self.acks,
            noise: self.noise == "all",
            kill: self.kill,
            explain: !self.no_explain,
            patience: self.patience,
            seed: self.seed,
            keep: self.keep.clone(),
            ..Plan::new(workload, Program::Shell(self.check.clone()))
        })
    }
}

/// Runs the command: once outside, to look for what it needs, and again inside the enclosure.
pub fn run(args: Args) -> anyhow::Result<End> {
    let unusable = |e: anyhow::Error| Usage(format!("{e:#}"));
    let plan = args.plan()?;
    one_place_each(&[("--json", &args.json), ("--html", &args.html)])?;
    if enclosure::is_inside() {
        let inside = |show: Show<'_>| test::run(&plan, &enclosure::enter()?, show);
        return Ok(report(&args, &plan, inside).map_err(unusable)?);
    }
    let missing = match args.model {
        true => model::missing().into_iter().collect(),
        false => needs::missing(&plan.filesystems),
    };
    if !missing.is_empty() {
        let other = match args.model {
            true => "",
            false => "\nWith --model the test needs only strace.",
        };
        complain(&format!(
            "skipped: the test needs what is not here:\n    {}{other}",
            missing.join("\n    ")
        ));
        return Ok(End::Status(SKIPPED));
    }
    if args.model {
        let ran = report(&args, &plan, |show| model::run(&plan, show));
        if enclosure::is_interrupted() {
            complain("interrupted: everything was ended and removed");
            return Ok(End::Status(INTERRUPTED));
        }
        return Ok(ran.map_err(unusable)?);
    }
    let status = enclosure::run_inside(&std::env::args_os().skip(1).collect::<Vec<_>>())
        .map_err(unusable)?;
    Ok(End::Status(status))
}

/// Runs a test, and writes its report.
fn report(
    args: &Args,
    plan: &Plan,
    test: impl FnOnce(Show<'_>) -> anyhow::Result<Report>,
) -> anyhow::Result<End> {
    let json = args.json.as_ref().map(Sink::open).transpose()?;
    let html = args.html.as_ref().map(Sink::open).transpose()?;
    let stdout_has_data = [&args.json, &args.html].contains(&&Some(Target::Stdout));
    let bar = Bar::new();
    let mut steps = Steps::new(plan);
    let report = test(&mut |step| steps.show(step, &bar));
    bar.clear();
    let report = report?;
    print(&format!("{report}\n"), stdout_has_data)?;
    if let Some(sink) = html {
        sink.fill(|out| out.write_all(logforce_report::crashtest_html(&report).as_bytes()))?;
    }
    if let Some(sink) = json {
        sink.fill(|out| {
            serde_json::to_writer_pretty(&mut *out, &report)?;
            writeln!(out)
        })?;
    }
    Ok(match report.verdict {
        Verdict::Survived => End::Done,
        Verdict::Lost => End::Status(1),
        Verdict::Inconclusive => End::Inconclusive,
    })
}

/// Shows the progress of a test.
type Show<'a> = &'a mut dyn FnMut(Step<'_>);

/// The bar of a test: a cut takes as long as several states.
struct Steps {
    whole: f64,
    done: f64,
    weight_of_cut: f64,
}

impl Steps {
    fn new(plan: &Plan) -> Steps {
        let weight_of_cut = 5.0;
        let each = weight_of_cut * (plan.cuts + 6) as f64 + plan.states as f64;
        Steps {
            whole: each * plan.filesystems.len() as f64,
            done: 0.0,
            weight_of_cut,
        }
    }

    fn show(&mut self, step: Step<'_>, bar: &Bar) {
        let (filesystem, part, done, of, failed) = match step {
            Step::Explaining(what) => {
                log(&format!("looking for the cause: {what}"));
                return bar.doing(what);
            }
            Step::Checked {
                filesystem,
                part,
                done,
                of,
                failed,
            } => (filesystem, part, done, of, failed),
        };
        self.done += match part {
            Part::States => 1.0,
            _ => self.weight_of_cut,
        };
        let failed = match failed {
            0 => String::new(),
            n => format!(", {n} lost"),
        };
        let step = format!("{filesystem} {}: {done} of {of}{failed}", part.name());
        bar.doing(&step);
        if done == of {
            log(&step);
        }
        bar.fraction((self.done / self.whole).min(1.0));
    }
}

/// Prints a step where there is no terminal for a bar, so that the log of a long test in CI grows.
fn log(step: &str) {
    if !std::io::stderr().is_terminal() {
        complain(step);
    }
}
