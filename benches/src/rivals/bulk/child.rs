//! The child process, which runs one part for one subject.

use super::subjects::{CHILD, here};
use crate::pairs::child::peak_kib;
use crate::rivals::apart::{PartDone, Task, Work};
use crate::rivals::records::{FoundRecords, Records};
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

/// Returns the task of this process, if it is a child.
pub fn task() -> Option<String> {
    let mut words = std::env::args().skip(1);
    words.next().filter(|w| w == CHILD)?;
    words.next()
}

/// Runs the task.
pub fn main(task: &str) -> ExitCode {
    // When standard input ends, the parent is gone.
    thread::spawn(|| {
        let _ = io::stdin().lock().read_to_end(&mut Vec::new());
        std::process::exit(1)
    });
    match run(task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: &str) -> Result<()> {
    let task: Task = serde_json::from_str(task).context("the task cannot be read")?;
    let done = part(&task)?;
    let mut line = json!(done);
    line["event"] = json!("done");
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// Runs a part in this process.
///
/// # Errors
/// Returns the rival's error, or an error if it does not support bulk.
pub fn part(task: &Task) -> Result<PartDone> {
    let all = here();
    let Some(bulk) = all.iter().find(|bulk| bulk.name() == task.log) else {
        bail!("`{}` does not support bulk", task.log);
    };
    let (seconds, missing, foreign) = match task.work {
        Work::Append => {
            let mut records = Records::new(0, task.record)?;
            let took = bulk.append(&task.dir, &mut records, task.commits)?;
            (took.as_secs_f64(), 0, 0)
        }
        Work::Read => {
            let mut found = FoundRecords::new(1, task.record)?;
            let began = Instant::now();
            bulk.read(&task.dir, task.commits, &mut |record| found.see(record))?;
            let took = began.elapsed().as_secs_f64();
            (took, found.missing(&[task.commits]), found.foreign)
        }
        other => bail!("a child does not do {other:?}"),
    };
    Ok(PartDone {
        seconds,
        peak_kib: peak_kib(),
        missing,
        foreign,
    })
}
