//! Tests of the simulated disk and its scheduler.
//!
//! All files are one program, because linking each separately took longer than running it.

mod common;
mod conformance;
mod crashes;
mod disk;
mod model;
mod threads;
mod toy;
