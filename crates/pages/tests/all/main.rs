//! Page files on a simulated disk, against a model.
//!
//! One program: to link each file by itself took longer than to run it.

mod basics;
mod common;
mod concurrent;
mod cow_basics;
mod cow_crashes;
mod cow_places;
mod cow_random;
mod cow_trouble;
mod crashes;
mod damage;
mod model;
mod states;
