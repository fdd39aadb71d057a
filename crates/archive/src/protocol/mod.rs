//! Protocol of an archive: machines that decide who may write, and what counts. No I/O, no clock.
//!
//! Each machine is a plain value. Its driver sends the requests of `poll`, in any order and all at once, and
//! returns each answer with its request. An answer may make further requests:
//!
//! ```text
//! for request in machine.poll() { send(request) }          the bytes of a chunk are the driver's
//! machine.answer(&request, answer)                         then poll again, until there is an outcome
//! ```
//!
//! A request whose fate is unknown is answered by `Unknown`, and the machine returns it again if needed. The
//! driver decides when to send it. An object that cannot be decoded is the driver's error.
//!
//! - `claim`: becomes the owner of the next epoch;
//! - `writer`: puts chunks, and confirms them in order;
//! - `cover`, `removal`: put segments, raise floors, prune;
//! - `reading`: returns the log from the archive's start;
//! - `scan`, `put`, `misses`: one epoch's end, one object's fate, objects that stay missing; the others are made
//!   of these.

mod claim;
mod cover;
mod error;
mod misses;
mod put;
mod reading;
mod removal;
mod request;
mod scan;
mod writer;

pub use claim::{Claim, Claimant, Claimed, Local};
pub use cover::Cover;
pub use error::Error;
pub use reading::{Part, Reading};
pub use removal::{Removal, Sweep};
pub use request::{Answer, Listing, Request};
pub(crate) use scan::{Base, Scan, Scanned};
pub use writer::Writer;
