//! Calibration: measures through the device contract which commit method is fastest in a directory.
//!
//! Calibration affects speed only, never safety. The steps, which [`choose`] combines:
//!
//! 1. [`shortlist`] admits only methods that guarantee, by the facts, what the default method guarantees.
//! 2. [`measure`] measures them alternately, within a time limit.
//! 3. [`decide`] chooses the default method unless another is faster by more than a tenth beyond the noise.
//! 4. [`Memory`] and the file [`store::NAME`] of a directory keep the resulting [`Calibration`].
//!
//! [`observe`] adds the cost of commits in real use. [`verdicts`] keeps the results of power cuts in a second
//! file. [`choose_write_through`] measures the write-through limit of page files, which a third file keeps.

#![forbid(unsafe_code)]
// The library returns errors and never panics in a user's process.
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

mod calibration;
mod choose;
mod decide;
mod evidence;
mod key;
mod memory;
mod samples;
mod scratch;
mod shortlist;
pub mod store;
mod trial;
pub mod verdicts;
mod write_through;

pub use calibration::{Calibration, Live};
pub use choose::{Choice, Origin, Site, choose, measure_anew, observe};
pub use decide::{Decision, Figure, Interval, decide};
pub use key::ValidFor;
pub use memory::Memory;
pub use samples::{Samples, Turn};
pub use shortlist::{LeftOut, Shortlist, Skip, shortlist, skip};
pub use trial::{Limits, Trial, measure};
pub use write_through::{
    Decided, WRITE_THROUGH_NAME, WriteThroughCalibration, WriteThroughFigure, WriteThroughLimit,
    WriteThroughMemory, WriteThroughSite, choose_write_through, known_write_through,
    measure_write_through,
};
