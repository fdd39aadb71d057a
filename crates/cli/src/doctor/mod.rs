//! `logforce doctor`.

mod text;

#[cfg(test)]
mod tests;

use crate::bench::common::command_line;
use crate::bench::os;
use crate::exit::End;
use crate::output::{Sink, Target, print, terminal_width};
use crate::signal;
use anyhow::{Context, bail};
use logforce::disk::{Facts, calibration};
use logforce_device::Layer;
use logforce_device_os::{Asked, ask_devices, device_facts, file_facts, hypervisor};
use logforce_measure::Interrupt;
use logforce_measure::counters::CounterSource;
use logforce_measure::doctor::next::Next;
use logforce_measure::doctor::{Doctor, Findings, Question, Severity, Test, trial};
use logforce_measure::machine::Machine;
use logforce_measure::output;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MORE: &str = "\
As root it asks the devices below the path about their caches, by commands that only read, and stores their
answers in /run/logforce for the logs of this machine until the next start. In a directory it writes a few
hundred blocks to test whether a force reaches the devices; --passive leaves out both. A device behind USB is
asked only with --ask, because the command may reset its bridge.
Exit status: 0 a commit here survives loss of power, as declared or proven; 1 it does not, or a test contradicts
it; 3 unknown; 4 failed.";

/// Flags of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub struct Args {
    /// Directory, file or block device to examine
    #[arg(value_name = "PATH", default_value = ".")]
    path: PathBuf,
    /// Send no commands to devices, and write nothing
    #[arg(long, conflicts_with = "ask")]
    passive: bool,
    /// Also ask devices behind USB
    #[arg(long)]
    ask: bool,
    /// Directory of shared results [default: $XDG_CACHE_HOME/logforce or ~/.cache/logforce; on Windows
    /// %LOCALAPPDATA%\logforce\cache]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Write the result as JSON to FILE; - writes only that to standard output
    #[arg(long, value_name = "FILE")]
    json: Option<Target>,
    /// Write the result as an HTML page to FILE; - writes only that to standard output
    #[arg(long, value_name = "FILE")]
    report: Option<Target>,
}

/// Part of the machine that is examined.
enum Subject {
    Directory(PathBuf),
    /// A file, and its directory if that is on the same filesystem.
    File(PathBuf, Option<PathBuf>),
    Device,
}

/// Examines the storage below a path.
pub fn run(args: Args) -> anyhow::Result<End> {
    let subject = Subject::of(&args.path)?;
    let json = args.json.as_ref().map(Sink::open).transpose()?;
    let page = args.report.as_ref().map(Sink::open).transpose()?;
    let stdout_has_data = [&json, &page]
        .iter()
        .any(|s| matches!(s, Some(Sink::Stdout)));
    let interrupt = Interrupt::new();
    signal::install(interrupt.clone(), Arc::default())?;
    let cache = args.cache.clone().or_else(calibration::default_cache);
    let look = || look(&args.path, &subject, cache.as_deref());
    let (facts, next, asked) = look_and_ask(&args, look, ask_devices)?;
    let tests = match &subject {
        _ if args.passive => Err("none were made, because of --passive".to_owned()),
        Subject::Device => Err("none are made on a device itself, because they write".to_owned()),
        Subject::File(_, None) => {
            Err("none are made on a file that is mounted by itself".to_owned())
        }
        Subject::Directory(dir) | Subject::File(_, Some(dir)) => test(dir, &facts, &interrupt),
    };
    if interrupt.is_raised() {
        return Ok(End::Interrupted);
    }
    let doctor = Doctor::new(
        &facts,
        next,
        Findings {
            command: command_line(),
            path: args.path.display().to_string(),
            target: subject.name(),
            machine: Machine::new(&facts, os::host()).at(&args.path),
            hypervisor: hypervisor()?,
            asked: asked.into_iter().map(question).collect(),
            tests,
        },
    );
    if !stdout_has_data {
        print(&text::render(&doctor, terminal_width(false)), false)?;
    }
    if let Some(sink) = json {
        sink.fill(|out| output::json(&doctor, out))?;
    }
    if let Some(sink) = page {
        sink.fill(|out| {
            io::Write::write_all(out, logforce_report::doctor_html(&doctor).as_bytes())
        })?;
    }
    Ok(match doctor.conclusion.severity {
        Severity::Safe => End::Done,
        Severity::Unsafe => End::Unfit,
        Severity::Unknown => End::Inconclusive,
    })
}

/// Looks at the path, asks the devices below it, and looks again, because the facts include their answers.
fn look_and_ask<N>(
    args: &Args,
    look: impl Fn() -> anyhow::Result<(Facts, N)>,
    ask: impl Fn(&[Layer], bool) -> io::Result<Vec<Asked>>,
) -> anyhow::Result<(Facts, N, Vec<Asked>)> {
    let (facts, next) = look()?;
    if args.passive {
        return Ok((facts, next, Vec::new()));
    }
    let asked = ask(&facts.layers, args.ask)?;
    let (facts, next) = look()?;
    Ok((facts, next, asked))
}

/// Returns the facts of the path, and the method that a log would use there.
fn look(path: &Path, subject: &Subject, cache: Option<&Path>) -> anyhow::Result<(Facts, Next)> {
    match subject {
        Subject::File(file, None) => {
            let facts = file_facts(file)?;
            let next = Next::unmeasured(&facts);
            Ok((facts, next))
        }
        Subject::Directory(dir) | Subject::File(_, Some(dir)) => {
            let known = calibration::known(dir, cache)?;
            let next = Next::new(&known);
            Ok((known.facts, next))
        }
        Subject::Device => {
            let facts = device_facts(path)?;
            let next = Next::unmeasured(&facts);
            Ok((facts, next))
        }
    }
}

fn test(dir: &Path, facts: &Facts, interrupt: &Interrupt) -> Result<Vec<Test>, String> {
    let mut names = BTreeSet::new();
    let devices = facts.layers.iter().filter_map(|layer| {
        // Two parts of a stack may end on one disk.
        let is_new = names.insert(layer.name.as_str());
        let counter = os::device_counters(&layer.name).ok().filter(|_| is_new)?;
        Some((
            layer.name.clone(),
            Box::new(counter) as Box<dyn CounterSource>,
        ))
    });
    trial::run(&os::system(), dir, facts, devices.collect(), interrupt).map_err(|e| e.to_string())
}

/// Returns true if the file is on the filesystem of its directory. Where the system does not number filesystems, a
/// file is.
fn is_on_one_filesystem(file: &Path, dir: &Path) -> bool {
    let facts = file_facts(file).ok();
    let of_dir = logforce::disk::facts(dir).ok();
    facts.zip(of_dir).is_none_or(|(file, dir)| {
        (file.mount_point, file.filesystem) == (dir.mount_point, dir.filesystem)
    })
}

fn question(asked: Asked) -> Question {
    let (answer, why_not) = match asked.answer {
        Ok(answer) => (Some(answer), None),
        Err(why) => (None, Some(why)),
    };
    Question {
        device: asked.device,
        answer,
        why_not,
    }
}

impl Subject {
    fn of(path: &Path) -> anyhow::Result<Subject> {
        let found = match path.metadata() {
            Ok(found) => found,
            Err(e) if e.kind() == io::ErrorKind::NotFound => bail!(
                "{} does not exist: give a directory, a file or a block device on the disk in question",
                path.display()
            ),
            Err(e) => {
                return Err(e).with_context(|| {
                    format!(
                        "cannot look at {}, so nothing is known of it",
                        path.display()
                    )
                });
            }
        };
        if found.is_dir() {
            return Ok(Subject::Directory(path.to_owned()));
        }
        if found.is_file() {
            let file = path.canonicalize()?;
            let parent = file.parent().map(Path::to_owned);
            // A filesystem may be mounted on the file itself, as containers do with single files.
            let dir = parent.filter(|dir| is_on_one_filesystem(&file, dir));
            return Ok(Subject::File(file, dir));
        }
        Ok(Subject::Device)
    }

    fn name(&self) -> &'static str {
        match self {
            Subject::Directory(_) => "directory",
            Subject::File(..) => "file",
            Subject::Device => "device",
        }
    }
}
