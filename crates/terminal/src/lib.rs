//! Text for people: numbers, tables that fit a terminal, arguments of a command line, progress.

#![forbid(unsafe_code)]

pub mod arguments;
pub mod layout;
pub mod numbers;
pub mod progress;
