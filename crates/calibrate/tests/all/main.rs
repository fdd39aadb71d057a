//! Tests of measurements and choices.
//!
//! All files are one program, because linking each separately took longer than running it.

mod choose;
mod common;
mod trial;
mod write_through;
