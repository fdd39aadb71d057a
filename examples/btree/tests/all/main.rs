//! Tests of the tree: against a model, with power cuts, kills, threads and corrupt pages.

mod basics;
mod command;
mod common;
mod corrupt;
mod crashes;
mod kill;
mod model;
mod threads;
