//! Directory in which a bench runs; it is removed afterwards.

use anyhow::{Context, Result, bail};
use logforce_device::{Directory, System};
use logforce_device_os::{Counter, OsSystem};
use logforce_measure::counters::{CounterSource, NoCounters, Reading};
use logforce_measure::machine::{Host, Machine};
use logforce_measure::space::Space;
use logforce_measure::workplace::Workplace;
use logforce_measure::{Interrupt, output};
use logforce_terminal::progress::Progress;
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;

/// Flags of every bench.
#[derive(Debug, Clone, clap::Args)]
pub struct Common {
    /// Directory on the disk to measure; files are created in it and removed. Cargo starts benches
    /// in
    /// the directory of their crate: a relative path begins there
    #[arg(long, default_value = ".")]
    pub dir: PathBuf,

    /// Write everything that was measured to FILE
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Passed by `cargo bench`; ignored
    #[arg(long, hide = true)]
    bench: bool,
}

impl Common {
    /// Writes the report, if `--json` was given.
    pub fn write(&self, report: &impl Serialize) -> Result<()> {
        let Some(path) = &self.json else {
            return Ok(());
        };
        let file = std::fs::File::create(path).with_context(|| path.display().to_string())?;
        output::json(report, file).with_context(|| path.display().to_string())
    }
}

/// A directory that is removed with its content when this is dropped.
pub struct BenchDir {
    workplace: Workplace,
    /// Counters of the device's writes and flushes.
    pub counters: Rc<dyn CounterSource>,
    /// Device whose counters are read, or the reason if there are none.
    pub counted: Result<String, String>,
}

impl BenchDir {
    /// Creates a directory in `dir`.
    ///
    /// # Errors
    /// If `dir` is not a directory, or nothing can be created in it.
    pub fn new(dir: &Path) -> Result<BenchDir> {
        if !dir.is_dir() {
            bail!("{} is not a directory", dir.display());
        }
        let workplace = Workplace::create(&OsSystem::new(), dir)?;
        let (counters, counted): (Rc<dyn CounterSource>, _) = match Counter::of(workplace.path()) {
            Ok(counter) => {
                let device = counter.device().to_string();
                (Rc::new(DeviceCounters(counter)), Ok(device))
            }
            Err(e) => (Rc::new(NoCounters), Err(e.to_string())),
        };
        Ok(BenchDir {
            workplace,
            counters,
            counted,
        })
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        self.workplace.path()
    }

    /// Returns the directory.
    pub fn directory(&self) -> Arc<dyn Directory> {
        self.workplace.directory()
    }

    /// Returns the free space there.
    pub fn space(&self) -> Result<Space> {
        Ok(Space::of(&*self.directory())?)
    }

    /// Returns the machine and the filesystem of the directory.
    pub fn machine(&self) -> Result<Machine> {
        let facts = self
            .directory()
            .facts()
            .context("asking about the filesystem")?;
        let machine = logforce_device_os::machine();
        let host = Host {
            name: machine.name,
            os: machine.system,
            kernel: machine.kernel,
            arch: machine.architecture,
            cpus: machine.cpus,
            caveat: machine.caveat.map(str::to_owned),
        };
        Ok(Machine::new(&facts, host))
    }
}

/// Returns the files, directories and clock of this system.
pub fn system() -> Arc<dyn System> {
    Arc::new(OsSystem::new())
}

struct DeviceCounters(Counter);

impl CounterSource for DeviceCounters {
    fn read(&self) -> Option<Reading> {
        let counters = self.0.sample().ok()?;
        Some(Reading {
            writes: counters.writes,
            bytes: counters.sectors_written * 512,
            flushes: counters.flushes,
        })
    }
}

/// A progress line, overwritten in place, if standard error is a terminal.
pub struct Line;

impl Line {
    /// Clears the line.
    pub fn clear(&self) {
        self.doing("");
    }
}

impl Progress for Line {
    fn doing(&self, what: &str) {
        let mut out = std::io::stderr();
        if out.is_terminal() {
            // Nothing depends on the progress line, so errors are ignored.
            let _ = write!(out, "\r\x1b[K{what}").and_then(|()| out.flush());
        }
    }

    fn fraction(&self, _: f64) {}
}

/// Runs a bench, which returns true if everything went well. Ctrl-C raises the interrupt that it is
/// given.
pub fn run(name: &str, body: impl FnOnce(Interrupt) -> Result<bool>) -> ExitCode {
    let interrupt = Interrupt::new();
    let raised = interrupt.clone();
    let listening = ctrlc::set_handler(move || {
        raised.raise();
    });
    let result = listening
        .context("cannot listen for Ctrl-C")
        .and_then(|()| body(interrupt));
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("{name}: {e:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the command line.
pub fn command_line(name: &str) -> String {
    let mut words = vec![name.to_owned()];
    words.extend(std::env::args().skip(1).filter(|a| a != "--bench"));
    words.join(" ")
}
