//! What calibration measures and chooses.
//!
//! One program: to link each file by itself took longer than to run it.

mod choose;
mod common;
mod trial;
mod write_through;
