//! Time of the system's own force on this disk, by a short measurement.

use crate::bench::common::{counters, leaving_nothing};
use crate::bench::os;
use crate::progress::Bar;
use logforce_device::{FilesystemKind, Method};
use logforce_measure::journal::{self, Options};
use logforce_measure::space::Space;
use logforce_measure::{Quantity, Row, Scenario, Setup};
use logforce_systems::commit::Force;
use logforce_systems::settings::{SystemSettings, Time};
use logforce_terminal::numbers::bytes;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Time for the measurement of one log.
const BUDGET: Duration = Duration::from_secs(1);
/// Largest file of the measurement, bytes.
const LARGEST: u64 = 64 << 20;

/// Measured times of forces, or the reason why there are none.
#[derive(Debug, Default)]
pub struct Costs {
    /// Rows of each log of the system.
    rows: Vec<Vec<Row>>,
    /// Reason why nothing was measured.
    pub missing: Option<String>,
    /// True if the user interrupted it.
    pub interrupted: bool,
}

impl Costs {
    /// Returns costs that were not measured.
    pub fn missing(why: impl Into<String>) -> Costs {
        Costs {
            missing: Some(why.into()),
            ..Costs::default()
        }
    }

    /// Returns the time of one force of a log by `method`.
    pub fn of(&self, log: usize, method: Method) -> Option<Time> {
        let rows = self.rows.get(log)?;
        let row = rows
            .iter()
            .find(|r| journal::row::method(r) == Some(method))?;
        let spread = row.spread(Quantity::MsPerCommit)?;
        Some([spread.p10, spread.median, spread.p90])
    }
}

/// Measures the forces of a system in `dir` by each of `methods`. A failure is not an error: the costs then
/// contain the reason.
pub fn measure(
    settings: &SystemSettings,
    methods: &[Method],
    dir: &Path,
    kind: FilesystemKind,
) -> anyhow::Result<Costs> {
    if kind == FilesystemKind::Volatile {
        return Ok(Costs::missing("the files are in memory"));
    }
    let Some(commit) = settings.system.commit() else {
        return Ok(Costs::missing("the writes of this system are not known"));
    };
    let measured = leaving_nothing(dir, |place, interrupt| {
        let bar = Rc::new(Bar::new());
        let setup = Setup {
            system: Arc::new(os::system()),
            path: place.path().to_owned(),
            space: Space::of(&*place.directory())?,
            counters: counters(place.path()),
            interrupt,
            progress: Rc::clone(&bar) as Rc<_>,
        };
        let outcomes = commit
            .forces
            .iter()
            .map(|f| options(f, methods).run(&setup));
        let outcomes: Result<Vec<_>, _> = outcomes.collect();
        bar.clear();
        outcomes
    });
    Ok(match measured {
        Ok(None) => Costs {
            interrupted: true,
            ..Costs::default()
        },
        Ok(Some(outcomes)) => Costs {
            interrupted: outcomes.iter().any(|o| o.interrupted),
            rows: outcomes.into_iter().map(|o| o.rows).collect(),
            missing: None,
        },
        Err(e) => Costs::missing(format!("{e:#}")),
    })
}

fn options(force: &Force, methods: &[Method]) -> Options {
    Options {
        size: force.file_bytes.min(LARGEST),
        chunk: usize::try_from(force.bytes).unwrap_or(4096),
        methods: methods.to_vec(),
        states: vec![force.state],
        logs: false,
        log_methods: Vec::new(),
        time: Some(BUDGET),
    }
}

/// Describes a force in words, such as `8 KiB by fdatasync into a recycled file`.
pub fn described(force: &Force, method: Method) -> String {
    format!("{} by {method}, {} file", bytes(force.bytes), force.state)
}
