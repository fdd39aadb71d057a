//! What calibration measures and chooses.
//!
//! One program: to link each file by itself took longer than to run it.

mod common;
mod settle;
mod trial;
