//! Logforce compared with other logs and stores: the same records in the same run, each made durable
//! before the next.
//!
//! Rivals are optional features: `--features rivals` builds all, or each by its name.
//!
//! - `subjects/` has one file per rival: how it is opened with its best durable settings, what a
//!   commit is, and how its records are read back.
//! - `apart/` has the subjects in separate processes: the Go programs of `go/`, and bulk.
//! - `bulk/` appends many records with one force and reads them back.
//! - `slice` runs one rival once; `rounds` runs all of them in turns; `document`
//!   has the results of all rounds, which can be merged with those of other runs; `report` has medians
//!   and ratios, `table` prints them, and `markdown` writes them into the documentation.
//! - `place` has the working directory, in a given directory or on a separate filesystem; `filesystem`
//!   has all filesystems of a run; `throttle` limits a device as a cloud volume is limited.

mod apart;
mod bench;
mod bulk;
mod described;
mod document;
pub(crate) mod filesystem;
mod flags;
mod markdown;
pub(crate) mod place;
mod records;
mod report;
mod rival;
mod rounds;
mod slice;
mod subjects;
mod table;
mod throttle;
pub(crate) mod turn;
pub(crate) mod versions;

pub use apart::{Task, Work};
pub use bench::{main, measure};
pub use bulk::child::part;
pub use bulk::{Bulk, here};
pub use document::Document;
pub use flags::Flags;
pub use markdown::replace;
pub use place::Ground;
pub use records::BULK_RECORD;
pub use records::{FoundRecords, Records};
pub use rival::{Entry, Kept, RivalRun, Until};
pub use rival::{InProcess, Opened, OwnProcess, Rival, Shape, Turn, Way, Writers};
pub use slice::run;
pub use subjects::{LOGFORCE, RAW, RECYCLING, all};
#[cfg_attr(not(feature = "sqlite"), allow(unused_imports))]
pub use turn::take;
