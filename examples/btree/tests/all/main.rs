//! The tree against a model: by properties, power cuts, kills, threads, corrupt pages.

mod basics;
mod command;
mod common;
mod corrupt;
mod crashes;
mod kill;
mod model;
mod threads;
