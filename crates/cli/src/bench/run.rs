//! What every scenario does around its measurement: opens the files of the results, measures in a
//! directory of its own, prints the report, writes the files, and says how it ended.

use super::common::{
    Files, Sinks, command_line, counters, leaving_nothing, machine, terminal_width,
};
use super::os;
use crate::exit::End;
use crate::output::print;
use crate::progress::Bar;
use anyhow::bail;
use logforce_measure::MeasureError;
use logforce_measure::group::Setup;
use logforce_measure::head::Head;
use logforce_measure::machine::Machine;
use logforce_measure::space::Space;
use serde::Serialize;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

/// One run of a scenario.
pub struct Run {
    sinks: Sinks,
    stdout_has_data: bool,
    started: SystemTime,
}

impl Run {
    /// Opens the files of the results, before anything is measured.
    pub fn begin(files: &Files) -> anyhow::Result<Run> {
        let sinks = files.open()?;
        Ok(Run {
            stdout_has_data: sinks.have_stdout(),
            sinks,
            started: SystemTime::now(),
        })
    }

    /// What `measure` finds in a directory of its own in `dir`, and on what machine. `None` if the
    /// user interrupted before anything was measured.
    pub fn measure<O>(
        &self,
        dir: &Path,
        measure: impl FnOnce(Setup) -> Result<O, MeasureError>,
    ) -> anyhow::Result<Option<(O, Machine)>> {
        leaving_nothing(dir, |place, interrupt| {
            let bar = Rc::new(Bar::new());
            let setup = Setup {
                system: Arc::new(os::system()),
                path: place.path().to_owned(),
                space: Space::of(&*place.directory())?,
                counters: counters(place.path()).0,
                interrupt,
                progress: Rc::clone(&bar) as Rc<_>,
            };
            let outcome = measure(setup);
            bar.clear();
            Ok((outcome?, machine(&*place.directory())?))
        })
    }

    /// What the report begins with.
    pub fn head(
        &self,
        schema: &'static str,
        version: u32,
        interrupted: bool,
        machine: Machine,
    ) -> Head {
        Head {
            schema,
            version,
            command: command_line(),
            started: humantime::format_rfc3339_seconds(self.started).to_string(),
            interrupted,
            machine,
        }
    }

    /// Characters in a line of what is printed.
    pub fn width(&self) -> usize {
        terminal_width(self.stdout_has_data)
    }

    /// Prints `text`, writes the report and its rows into the files, and says how the run ended.
    pub fn end<R: Serialize>(
        self,
        text: String,
        report: &impl Serialize,
        head: &Head,
        rows: &[R],
        has_failed: impl Fn(&R) -> bool,
    ) -> anyhow::Result<End> {
        let printed = print(&head.machine.under_caveat(text), self.stdout_has_data);
        // Also where nobody reads what is printed, as behind `| head`.
        self.sinks.fill(report, head.interrupted, rows)?;
        printed?;
        if head.interrupted {
            return Ok(End::Interrupted);
        }
        if rows.iter().all(has_failed) {
            bail!("nothing could be measured");
        }
        Ok(End::Done)
    }
}
