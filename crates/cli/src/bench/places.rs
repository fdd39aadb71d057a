//! `logforce bench --dir A --dir B`: two directories, whose slices take turns in one run.

use super::common::{Files, command_line, leaving_nothing_in, machine};
use super::run::setup;
use crate::exit::{End, Usage};
use crate::output::{print, terminal_width};
use crate::progress::Bar;
use anyhow::bail;
use logforce_measure::journal::Options;
use logforce_measure::journal::places::Places;
use logforce_measure::run::cpu::CpuCounters;
use logforce_measure::scenario::fill;
use logforce_measure::{Document, Kind, output};
use std::path::Path;
use std::rc::Rc;
use std::time::SystemTime;

/// Measures both directories, prints the comparison, and writes the files.
pub fn run(options: &Options, dirs: [&Path; 2], files: &Files) -> anyhow::Result<End> {
    if let Some(flag) = files.draws() {
        bail!(Usage(format!(
            "{flag} draws the result of one directory: name only one --dir, or use --json or --csv"
        )));
    }
    let sinks = files.open()?;
    let stdout_has_data = sinks.have_stdout();
    let started = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let names = dirs.map(|dir| dir.display().to_string());
    let measured = leaving_nothing_in(dirs, |places, interrupt| {
        let bar = Rc::new(Bar::new());
        let mut setups = Vec::new();
        let mut documents = Vec::new();
        for (place, dir) in places.iter().zip(dirs) {
            let machine = machine(&*place.directory(), dir)?;
            documents.push(Document::new(
                Kind::Journal,
                command_line(),
                started.clone(),
                machine,
            ));
            setups.push(setup(place, interrupt.clone(), &bar)?);
        }
        if documents[0].machine.mount_point == documents[1].machine.mount_point {
            // Both need their files at the same time.
            for setup in &mut setups {
                setup.space.free -= setup.space.usable() / 2;
            }
        }
        let before = CpuCounters::now();
        let outcomes = options.in_turns(&setups);
        let cpu = CpuCounters::now().since(&before);
        bar.clear();
        for (document, outcome) in documents.iter_mut().zip(outcomes?) {
            document.cpu = cpu;
            fill(options, outcome, document);
            document.notes.extend(cpu.and_then(|cpu| cpu.note()));
        }
        Ok(documents)
    })?;
    let Some(Ok(documents)) = measured.map(<[Document; 2]>::try_from) else {
        return Ok(End::Interrupted);
    };
    let places = Places::new(names, documents);
    let printed = print(
        &places.text(files.shown().all, terminal_width(stdout_has_data)),
        stdout_has_data,
    );
    // The files are written even if the reader of standard output is gone.
    sinks.fill_with(
        |out| output::json(&places, out),
        |out| output::csv(&places.rows, places.interrupted, out),
    )?;
    printed?;
    if places.interrupted {
        return Ok(End::Interrupted);
    }
    if !places.is_measured() {
        bail!("no row could be measured in both directories");
    }
    Ok(End::Done)
}
