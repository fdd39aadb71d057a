//! Page files on a simulated disk: what each call does, and to what it answers an error. Random runs,
//! crashes and every kind of failure are in `crates/sim`, against a model.
//!
//! One program: to link each file by itself took longer than to run it.

mod applying;
mod backup;
mod basics;
mod common;
mod contention;
mod cow_basics;
mod cow_damage;
mod cow_full;
mod cow_places;
mod cow_rollback;
mod cow_trouble;
mod damage;
mod displaced;
mod inspect;
#[cfg(planted)]
mod known_bugs;
mod map_damage;
mod read_only;
mod reading;
mod space;
mod verdicts;
