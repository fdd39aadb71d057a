//! The thread that writes: it may be blocked by an output, and commits go on meanwhile.

use super::lines::Lines;
use super::record::{Record, Start, wall_clock};
use super::text;
use crate::output::print;
use logforce_measure::Interrupt;
use logforce_measure::watch::{Event, InProgress, Totals};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Interval at which a commit that does not end is looked for.
const LOOK: Duration = Duration::from_millis(500);
/// Duration of a commit from which it is reported before it ends. It may never end.
const HANG: Duration = Duration::from_secs(5);

/// Writer of all outputs.
pub struct Reporter {
    start: Start,
    files: Vec<Lines>,
    totals: Arc<Totals>,
    interrupt: Interrupt,
    began: Instant,
    lost: Arc<AtomicU64>,
    /// Commit whose hanging was reported.
    hanging: Option<InProgress>,
    /// True once the summary was printed for an interrupt during such a commit.
    is_waiting: bool,
}

impl Reporter {
    /// Makes a reporter.
    pub fn new(
        start: Start,
        files: Vec<Lines>,
        totals: Arc<Totals>,
        interrupt: Interrupt,
    ) -> Reporter {
        Reporter {
            start,
            files,
            totals,
            interrupt,
            began: Instant::now(),
            lost: Arc::default(),
            hanging: None,
            is_waiting: false,
        }
    }

    /// Returns the counter of events that found the queue full.
    pub fn lost(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.lost)
    }

    /// Writes the first lines.
    pub fn begin(&mut self, address: Option<SocketAddr>) -> anyhow::Result<()> {
        for file in &mut self.files {
            file.begin(&self.start)?;
        }
        let mut head = text::start(&self.start);
        if let Some(address) = address {
            head.push_str(&format!("metrics at http://{address}/metrics\n"));
        }
        self.print(&head)
    }

    /// Writes each event, until the commits have ended or an output fails. Then writes the summary.
    pub fn run(&mut self, events: &Receiver<Event>) -> anyhow::Result<()> {
        let result = self.write_all(events);
        if result.is_err() {
            // Another output may still take it.
            let (lasted, summary) = (self.began.elapsed(), self.totals.summary());
            let _ = self.print(&text::end(
                lasted,
                summary.as_ref(),
                self.lost.load(Relaxed),
            ));
        }
        result
    }

    fn write_all(&mut self, events: &Receiver<Event>) -> anyhow::Result<()> {
        loop {
            match events.recv_timeout(LOOK) {
                Ok(event) => self.write(&text::event(&event), &Record::of(&event))?,
                Err(RecvTimeoutError::Disconnected) => return self.end(),
                Err(RecvTimeoutError::Timeout) => self.look()?,
            }
        }
    }

    /// Reports a commit that does not end. After an interrupt it also prints the summary, because the commit
    /// may never end.
    fn look(&mut self) -> anyhow::Result<()> {
        let Some(commit) = self.totals.scrape().in_progress else {
            return Ok(());
        };
        let lasting = since_origin().saturating_sub(commit.since);
        if lasting < HANG {
            return Ok(());
        }
        if self.hanging != Some(commit) {
            self.hanging = Some(commit);
            self.write(&text::hang(commit, lasting), &Record::hang(commit, lasting))?;
        }
        if self.interrupt.is_raised() && !self.is_waiting {
            self.is_waiting = true;
            self.print(&self.summary())?;
            self.print("waiting for the commit to end; a second Ctrl-C does not wait\n")?;
        }
        Ok(())
    }

    fn end(&mut self) -> anyhow::Result<()> {
        let (lasted, summary) = (self.began.elapsed(), self.totals.summary());
        let lost = self.lost.load(Relaxed);
        let record = Record::end(wall_clock(), lasted, summary.as_ref(), lost);
        for file in &mut self.files {
            file.write_record(&self.start, &record)?;
        }
        self.print(&self.summary())
    }

    fn summary(&self) -> String {
        let lost = self.lost.load(Relaxed);
        text::end(self.began.elapsed(), self.totals.summary().as_ref(), lost)
    }

    fn write(&mut self, line: &str, record: &Record) -> anyhow::Result<()> {
        for file in &mut self.files {
            file.write_record(&self.start, record)?;
        }
        self.print(&format!("{line}\n"))
    }

    fn print(&self, text: &str) -> anyhow::Result<()> {
        print(text, self.files.iter().any(Lines::have_stdout))
    }
}

/// Returns the time of the runtime's clock, on which a commit in progress began.
fn since_origin() -> Duration {
    use logforce_device::System;
    crate::bench::os::system().runtime().now()
}
