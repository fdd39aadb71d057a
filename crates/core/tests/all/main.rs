//! The log on systems that do what they are told to at the wrong moment.
//!
//! One program: to link each file by itself took longer than to run it.

mod advisor;
mod busy;
mod displaced;
mod openings;
mod reads;
mod repairs;
mod verdicts;
