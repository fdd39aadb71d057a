//! Which commit method is fastest in a place, measured through the device contract.
//!
//! It is about speed, never about safety: [`shortlist`] admits only methods that guarantee, by the
//! facts, what the default one does. The way: [`shortlist`] → [`measure`] (interleaved, within a
//! budget of time) → [`decide`] (the default, unless another wins by more than a tenth beyond the
//! noise) → a [`Calibration`], kept in [`Memory`] and in the file [`store::NAME`] of a directory.
//! Beside it lies what power cuts have shown: [`verdicts`].
//! Another file holds up to how much page files write through: [`choose_write_through`].
//! [`choose`] is all of that; [`observe`] gives it what commits cost in real use.

#![forbid(unsafe_code)]
// In a user's process an error is returned, never a panic.
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
