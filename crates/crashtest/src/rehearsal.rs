//! The run before a test: the workload without a cut, ended by `kill -9`.

use crate::counters::COUNTERS;
use crate::disk::Settings;
use crate::finished::Finished;
use crate::outage::Disks;
use crate::parts::Rehearsal;
use crate::stage::{Promised, Stage, Working};
use crate::subject::{Case, Session, Sink, Subject};
use crate::testbed::{Image, Powered};
use anyhow::Result;
use std::path::Path;
use std::time::{Duration, Instant};

/// Length of the work after the first acknowledgement.
const REHEARSED: Duration = Duration::from_millis(300);

impl<'a> Stage<'a> {
    /// Waits until the workload has acknowledged something; returns false if it ended before, or took too long.
    pub(crate) fn first_ack(&self, working: &mut Working) -> Result<bool> {
        let began = Instant::now();
        while self.acks.count() == 0 {
            if began.elapsed() > self.plan.patience || working.has_ended()? {
                return Ok(self.acks.count() > 0);
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        Ok(true)
    }

    /// Runs the workload without a cut, ends it by `kill -9`, and checks. The inner error says why the workload cannot
    /// be tested.
    pub(crate) fn rehearse(
        &self,
        sink: &mut Sink<'_, Stage<'a>>,
    ) -> Result<std::result::Result<Rehearsal, String>> {
        self.rehearse_on(&self.template, Promised::default(), sink)
    }

    /// Does the same on a copy of the disk `start`, on which `promised` has to be there.
    fn rehearse_on(
        &self,
        start: &Image,
        mut promised: Promised,
        sink: &mut Sink<'_, Stage<'a>>,
    ) -> Result<std::result::Result<Rehearsal, String>> {
        let disks = Disks::new(self.template.len())?;
        disks.stable.copy_from(start)?;
        let settings = Settings::honest(self.plan.seed, 0);
        self.begin()?;
        let switched = disks.switched(self.filesystem, self.acks.counters(), settings);
        let powered = Powered::on(switched, self.home, None)?;
        let Some(mounted) = powered.mounted().map(Path::to_owned) else {
            anyhow::bail!("a filesystem that was unmounted cannot be mounted");
        };
        let began = Instant::now();
        let mut working = self.work(&mounted, self.plan.seed)?;
        let acknowledged = self.first_ack(&mut working)?;
        let first = began.elapsed();
        let until = Instant::now() + REHEARSED;
        while acknowledged && Instant::now() < until && !working.has_ended()? {
            std::thread::sleep(Duration::from_millis(2));
        }
        let worked = began.elapsed() - first;
        let ended = working.kill()?;
        if !acknowledged {
            let (lines, rest) = self.acks.lines();
            return Ok(Err(no_ack(
                &ended,
                !lines.is_empty(),
                rest.as_deref(),
                first,
            )));
        }
        let entries = self.entries()?;
        self.promise(
            &mut promised,
            &Session::live(&entries, &[u64::MAX; COUNTERS]),
        );
        let report = powered.shut_down()?;
        let scratch = Image::new(self.template.len())?;
        scratch.copy_from(&disks.stable)?;
        sink(Case {
            checked: self.check_image(&scratch, &promised)?.0,
            promised: &promised,
            wrong: None,
            met: report.met,
            grain: 0,
            left: &|| Ok(&disks.stable),
            origin: None,
        })?;
        let acks = promised.acked.len() as u64;
        Ok(Ok(Rehearsal {
            filesystem: self.filesystem,
            first_ack_ms: first.as_millis() as u64,
            acks_per_second: acks as f64 / worked.as_secs_f64().max(0.001),
            flushes: report.flushes,
            writes: report.writes,
            acks,
        }))
    }

    /// Returns why the test proves nothing, if the check accepts the disk that a session left, with the lines of a later
    /// session.
    pub(crate) fn is_blind(&self, left: &Image, promised: &Promised) -> Result<Option<String>> {
        let mut later = promised.clone();
        let rehearsed = self.rehearse_on(left, promised.clone(), &mut |case| {
            later = case.promised.clone();
            Ok(true)
        });
        // A workload that has nothing more to do acknowledges nothing.
        let _ = rehearsed?;
        let (checked, _) = self.check_image(left, &later)?;
        Ok(checked.is_blind(&promised.acked, &later.acked))
    }
}

/// Returns why a workload cannot be tested that ended without an acknowledgement, or was ended after `waited`. It wrote
/// `lines` but no acknowledgement, or an unfinished line.
pub(crate) fn no_ack(
    ended: &Finished,
    lines: bool,
    rest: Option<&str>,
    waited: Duration,
) -> String {
    let why = match (rest, ended.status) {
        (Some(rest), _) => format!("it wrote {rest:?} without a newline"),
        _ if lines => "it wrote lines that begin with ? only".to_owned(),
        (None, Some(status)) if status.success() => format!(
            "it {}; a program that continues in the background ends with its first process, so it has to stay \
             in the foreground",
            ended.failure()
        ),
        (None, Some(_)) => format!("it {}", ended.failure()),
        (None, None) => format!(
            "it ran for {} s without one (--patience); a program that buffers its output has to flush it{}",
            waited.as_secs(),
            match ended.last_line() {
                line if line.is_empty() => line,
                line => format!("; its last line of output is {line:?}"),
            }
        ),
    };
    format!("the workload acknowledged nothing: {why}")
}
