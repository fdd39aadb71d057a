//! The simulated disk and its scheduler keep what they promise.
//!
//! One program: to link each file by itself took longer than to run it.

mod common;
mod conformance;
mod crashes;
mod disk;
mod model;
mod threads;
mod toy;
