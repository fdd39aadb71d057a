//! Steps around the measurement of every scenario: opening the result files, measuring in a temporary
//! directory, printing the report, writing the files, and returning how the run ended.

use super::common::{Files, command_line, counters, leaving_nothing, machine};
use super::os;
use crate::exit::End;
use crate::output::print;
use crate::output::terminal_width;
use crate::progress::Bar;
use anyhow::bail;
use logforce_measure::result::legend::Shown;
use logforce_measure::scenario::measure;
use logforce_measure::space::Space;
use logforce_measure::workplace::Workplace;
use logforce_measure::{Document, Interrupt, MeasureError, Scenario, Setup};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

/// Returns the setup of a measurement in a temporary directory.
pub fn setup(
    place: &Workplace,
    interrupt: Interrupt,
    bar: &Rc<Bar>,
) -> Result<Setup, MeasureError> {
    Ok(Setup {
        system: Arc::new(os::system()),
        path: place.path().to_owned(),
        space: Space::of(&*place.directory())?,
        counters: counters(place.path()),
        interrupt,
        progress: Rc::clone(bar) as Rc<_>,
    })
}

/// Measures a scenario in a temporary directory in `dir`, prints the report, and writes the files.
pub fn run<S: Scenario>(scenario: &S, dir: &Path, files: &Files) -> anyhow::Result<End> {
    let sinks = files.open()?;
    let stdout_has_data = sinks.have_stdout();
    let started = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let measured = leaving_nothing(dir, |place, interrupt| {
        let machine = machine(&*place.directory(), dir)?;
        let mut document = Document::new(S::KIND, command_line(), started, machine);
        let bar = Rc::new(Bar::new());
        let setup = setup(place, interrupt, &bar)?;
        let measured = measure(scenario, &setup, &mut document);
        bar.clear();
        measured.map(|()| document)
    })?;
    let Some(document) = measured else {
        return Ok(End::Interrupted);
    };
    let is_measured = document.rows.iter().any(|row| row.error.is_none());
    let shown = match is_measured {
        true => files.shown(),
        // The notes give the reasons.
        false => Shown {
            all: true,
            ..files.shown()
        },
    };
    let text = scenario.text(&document, shown, terminal_width(stdout_has_data));
    let printed = print(&document.machine.under_caveat(text), stdout_has_data);
    // The files are written even if the reader of standard output is gone, as with `| head`.
    sinks.fill(&document)?;
    printed?;
    if document.interrupted {
        return Ok(End::Interrupted);
    }
    if !is_measured {
        bail!("nothing could be measured");
    }
    Ok(End::Done)
}
