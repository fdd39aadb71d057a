//! `logforce powercut write`.

use super::{TOOL, Write as Args};
use crate::bench::os;
use crate::exit::End;
use crate::output::{complain, print};
use crate::signal;
use logforce_measure::Interrupt;
use logforce_terminal::numbers::count;
use logforce_witness::{Ended, Phase, RunDir, Started, Write, write};
use std::cell::Cell;
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Writes until the plug is pulled.
pub fn run(args: &Args) -> anyhow::Result<End> {
    let interrupt = Interrupt::new();
    signal::install(interrupt.clone(), Arc::default())?;
    let (system, cache) = (os::system(), args.run.cache());
    let what = Write {
        system: &system,
        home: RunDir::new(&args.run.dir),
        witness: args.run.witness.clone(),
        method: args.method,
        control: args.control,
        size: args.size,
        committers: args.committers,
        submitters: args.submitters,
        duration: args.duration,
        cache: cache.as_deref(),
        stop: interrupt.flag(),
        tool: TOOL,
    };
    let shows_progress = std::io::stderr().is_terminal();
    let began = Cell::new(Instant::now());
    let written = write(
        &what,
        &mut |started| {
            began.set(Instant::now());
            // A failure to print does not stop the run.
            let _ = print(&begun(started, args), false);
        },
        &mut |acknowledged, unforced| {
            if shows_progress {
                complain(&format!(
                    "{} and {} acknowledged{}",
                    count(acknowledged, "commit"),
                    count(unforced, "unforced write"),
                    left(args.duration, began.get().elapsed())
                ));
            }
        },
    )?;
    let why = match written.ended {
        Ended::Interrupted => "interrupted",
        Ended::Elapsed => "the time is over",
    };
    complain(&format!(
        "{why}: {} and {} were acknowledged, and no cut took place. Round {} is void; there is nothing \
         to check",
        count(written.acknowledged, "commit"),
        count(written.unforced, "unforced write"),
        written.started.round
    ));
    Ok(match written.ended {
        Ended::Interrupted => End::Interrupted,
        Ended::Elapsed => End::Done,
    })
}

/// Returns the remaining time as text, or nothing if it is unknown when the plug is pulled.
fn left(whole: Option<Duration>, elapsed: Duration) -> String {
    whole.map_or_else(String::new, |whole| {
        let left = whole.saturating_sub(elapsed).as_secs_f64().round();
        format!(
            ", {} left",
            humantime::format_duration(Duration::from_secs(left as u64))
        )
    })
}

fn begun(started: &Started, args: &Args) -> String {
    let Started {
        run,
        round,
        phase,
        subject,
    } = started;
    let what = match phase {
        Phase::Control => format!(
            "CONTROL PHASE: {} writes that are never forced. The power cut must lose some of them; \
             otherwise this run cannot detect losses",
            subject.control.name()
        ),
        Phase::Measured => format!(
            "MEASURED: a log commits by {}, with {} and {} that submit; a small file \
             beside it is not forced, to show that there was a power cut",
            subject.method,
            count(args.committers, "committer"),
            args.submitters
        ),
    };
    format!(
        "run {run}, round {round}, on {}\n{what}.\nPull the plug now, or when enough is acknowledged. \
         After the restart:\n  logforce powercut check --witness {} {}\n",
        subject.place,
        args.run.witness,
        args.run.dir.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_is_left_is_told_where_it_is_known() {
        let at = |whole, elapsed| left(whole, Duration::from_millis(elapsed));
        let whole = Some(Duration::from_secs(90));
        assert_eq!(at(whole, 1010), ", 1m 29s left");
        assert_eq!(at(whole, 91_000), ", 0s left");
        assert_eq!(at(None, 91_000), "");
    }
}
