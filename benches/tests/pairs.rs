//! Test of the bench `pairs`, with so little work that it takes almost no time. Nothing here depends on
//! the speed of the disk. This program is also the child that it starts.

use logforce_benches::pairs::child::{self, Child};
use logforce_benches::pairs::{Options, Part, Setup, run};
use logforce_device::System;
use logforce_device_os::OsSystem;
use logforce_measure::space::Space;
use logforce_measure::{Interrupt, MeasureError};
use logforce_terminal::progress::Silent;
use std::process::ExitCode;
use std::rc::Rc;

fn main() -> ExitCode {
    if let Some(task) = child::task() {
        return child::main(&task);
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let directory = OsSystem::new().directory(dir.path()).unwrap();
    let options = Options {
        parts: Part::ALL.to_vec(),
        pairs: 2,
        slice: 5,
        bulk: 2 << 20,
        bulk_pairs: 2,
        log: 4 << 20,
        memory: 4 << 20,
        method: None,
    };
    let setup = |log_space| Setup {
        space: log_space,
        directory: directory.clone(),
        child: Child::of_this_program().unwrap(),
        interrupt: Interrupt::new(),
        progress: Rc::new(Silent),
    };
    let space = Space::of(&*directory).unwrap();
    let outcome = match run(&options, &setup(space)) {
        Err(MeasureError::NoSpace(_)) => return ExitCode::SUCCESS,
        other => other.unwrap(),
    };
    let names: Vec<&str> = outcome.lines.iter().map(|l| l.name.as_str()).collect();
    let expected = [
        "commit-16KiB",
        "commit-128B",
        "bulk",
        "open-after-kill",
        "open-after-close",
        "scan",
        "memory",
    ];
    assert_eq!(names, expected);
    for line in &outcome.lines {
        assert_eq!(line.error, None, "{line:?}");
        assert!(line.value.is_some() && line.met.is_some(), "{line:?}");
    }
    assert_eq!((outcome.lines[0].pairs, outcome.lines[2].pairs), (2, 2));
    let huge = Options {
        log: 900 << 40,
        ..options
    };
    assert!(matches!(
        run(&huge, &setup(space)),
        Err(MeasureError::NoSpace(_))
    ));
    ExitCode::SUCCESS
}
