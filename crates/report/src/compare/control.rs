//! Control of a comparison: changes of the machine between two runs, which are not changes of what was compared.
//!
//! Rows that force nothing are written by the same calls to the same disk. If they moved, the machine moved, and
//! another row has changed only if it moved more. Time for which a thread waited for a processor is taken off.

use super::metric::{Metric, times};
use logforce_device::{ForceBy, Method};
use logforce_measure::{Document, Kind, Row, SubjectKind};
use serde::Serialize;

/// Movement without a control: a smaller loss or gain may be the machine's.
const WITHOUT: f64 = 1.25;
/// Smallest movement that is assumed.
const LEAST: f64 = 1.02;
/// Part of the control rows whose movement counts. A single one of many may be noise.
const MOST: f64 = 0.9;

/// Movement of the machine between two runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Control {
    /// Number of rows that force nothing.
    pub rows: usize,
    /// Factor by which they became slower or faster. A loss or a gain counts only above it. Without such rows it is
    /// 1.25.
    pub movement: f64,
    /// Percentage of the time for which threads waited for a processor, in A and B; null if unknown.
    pub cpu_wait_percent: [Option<f64>; 2],
}

impl Control {
    /// Takes the control from the rows of two runs.
    pub(super) fn of(
        metric: &Metric,
        rows: &[(String, Row, Row)],
        a: &Document,
        b: &Document,
    ) -> Control {
        let is_control = control_rows(a, b);
        let moved = rows.iter().filter(|(_, row, _)| is_control(row));
        let moved = moved.filter_map(|(_, a, b)| {
            let ratio = times(metric, b)?.0 / times(metric, a)?.0;
            Some(ratio.max(1.0 / ratio))
        });
        let mut moved: Vec<f64> = moved.collect();
        moved.sort_by(f64::total_cmp);
        let at = (moved.len().saturating_sub(1) as f64 * MOST).ceil() as usize;
        Control {
            rows: moved.len(),
            movement: moved.get(at).map_or(WITHOUT, |m| m.max(LEAST)),
            cpu_wait_percent: [0, 1]
                .map(|n| mean_wait(rows.iter().map(|pair| [&pair.1, &pair.2][n]))),
        }
    }

    /// Returns the part of a row's time in which nothing waited for a processor: that of the row itself, or of the
    /// whole run for rows of several threads.
    pub(super) fn running(&self, row: &Row, run: usize) -> f64 {
        let wait = row.cpu_wait_percent.or(self.cpu_wait_percent[run]);
        1.0 - wait.unwrap_or(0.0).clamp(0.0, 99.0) / 100.0
    }
}

/// Returns the mean of the waits of all rows that have one.
fn mean_wait<'a>(rows: impl Iterator<Item = &'a Row>) -> Option<f64> {
    let waits: Vec<f64> = rows
        .filter_map(|row| row.cpu_wait_percent)
        .filter(|wait| wait.is_finite())
        .collect();
    (!waits.is_empty()).then(|| waits.iter().sum::<f64>() / waits.len() as f64)
}

/// Returns the test for control rows. Of two processors nothing is a control, and of two disks only the writes to
/// the system's cache are: there the difference is what was asked for.
fn control_rows(a: &Document, b: &Document) -> impl Fn(&Row) -> bool {
    let kind = a.kind();
    let (of_a, of_b) = (&a.machine, &b.machine);
    let computer = (&of_a.os, &of_a.arch, of_a.cpus) == (&of_b.os, &of_b.arch, of_b.cpus);
    let disk = |m: &logforce_measure::machine::Machine| {
        (
            m.device.clone(),
            m.model.clone(),
            m.filesystem.clone(),
            m.write_cache.clone(),
        )
    };
    let disk = disk(of_a) == disk(of_b);
    move |row| match kind {
        _ if !computer => false,
        Kind::Journal | Kind::Sweep => row.method.known::<Method>().is_some_and(|method| {
            let plan = method.plan();
            row.subject != SubjectKind::Logforce
                && plan.force == ForceBy::None
                && (disk || !plan.direct)
        }),
        // Policies 2 and 0 leave the force for later.
        Kind::Inserts => row.policy.is_some_and(|policy| policy != 1),
        Kind::Group | Kind::Pages | Kind::Map => false,
    }
}
