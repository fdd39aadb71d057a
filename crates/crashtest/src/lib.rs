#![doc = include_str!("../README.md")]
// The example is a test, and is only compiled here.
#![allow(clippy::test_attr_in_doctest)]
#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

// Users see the names at the end. The modules are for Logforce's own programs:
//
// - `test::run` is the entry of the command; `plan` and `report` are what it takes and returns, `text` prints the report.
//   `library` is the entry of Rust tests.
// - `subject` is the interface of a program under test. `live` cuts its power, `states` builds states of a recorded
//   run, on `outage` (one session from power on to power off) and `replay`. Other suites begin here.
// - `stage` is the subject of a plan: it runs the commands on a filesystem, with `acks` (acknowledgements), `program`
//   (commands), `output` and `finished` (their output and end). `rehearsal` runs it without a cut, `runs` counts what
//   weakens a test, `explain` looks for the missing sync, `writeback` works beside the program.
// - `results` counts checks and losses, `verdict` judges them, `kept` writes a case into a directory.
// - `model` tests without root: `model::run` is its entry.
// - `testbed` makes images, mounts them, and leaves nothing behind. `disk` is the disk, `role` starts its process,
//   `counters` are sampled at the cut.

mod acks;
#[doc(hidden)]
pub mod counters;
#[doc(hidden)]
pub mod disk;
#[doc(hidden)]
pub mod explain;
mod finished;
mod kept;
mod library;
#[doc(hidden)]
pub mod live;
#[doc(hidden)]
pub mod model;
#[doc(hidden)]
pub mod outage;
mod output;
#[doc(hidden)]
pub mod parts;
#[doc(hidden)]
pub mod plan;
#[doc(hidden)]
pub mod program;
mod rehearsal;
mod replay;
#[doc(hidden)]
pub mod report;
mod results;
#[doc(hidden)]
pub mod role;
mod runs;
mod stage;
#[doc(hidden)]
pub mod states;
#[doc(hidden)]
pub mod subject;
#[doc(hidden)]
pub mod test;
#[doc(hidden)]
pub mod testbed;
mod text;
mod verdict;
mod writeback;

pub use library::{Acknowledged, Acknowledger, Crashtest, Outcome, TaskResult};
pub use report::Verdict;
pub use testbed::Filesystem;
