//! Page files on a simulated disk: the results of each call, and the errors that it returns. Random runs,
//! crashes and every kind of failure are tested in `crates/sim`, against a model.
//!
//! All tests are one program, because linking each file separately took longer than running it.

mod applying;
mod backup;
mod base;
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
