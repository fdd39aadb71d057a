//! Measuring: subjects that commit in slices, the counts inside their commit loops, and the files and
//! disk space that they use.

pub mod beside;
pub mod counters;
pub mod counting;
pub mod cpu;
mod error;
pub mod generator;
pub mod in_flight;
mod interrupt;
pub mod library;
pub mod prepare;
pub mod probe;
pub mod ratio;
pub mod raw;
pub mod recorder;
pub mod rounds;
pub mod schedule;
mod series;
mod slices;
pub mod space;
pub mod stats;
pub mod subject;
pub mod workers;
pub mod workplace;

pub use cpu::CpuLoad;
pub use error::MeasureError;
pub use interrupt::Interrupt;
pub use ratio::{Ratio, Relation};
pub use recorder::{Limit, Recorder};
pub use rounds::Case;
pub use series::{CpuTimes, MeasuredSlice, Series, SeriesPoint};
pub use slices::{Setup, Slices};
pub use subject::{RowKey, Subject, SubjectKind};
