//! Base copies of page files: what a restore begins with, before the log.
//!
//! A copy is read while the page file is written. Its parts are put under a new name, then
//! the object `b/…`, created once. That one says that the parts are all there, and that the archive has the
//! log that the copy needs. So a copy that was cut short is invisible.

mod find;
mod make;
mod prune;
mod restore;
#[cfg(test)]
mod tests;
mod verify;

pub(crate) use find::{Needs, bases, is_of_page_file, is_usable, needs};
pub(crate) use prune::{not_needed, remove, remove_partial};
pub(crate) use restore::{begin, finish};
pub(crate) use verify::{check_base, part_keys};
