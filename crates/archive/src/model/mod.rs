//! Exhaustive tests of the protocol: all orders of all steps, within bounds, of the shipped machines.
//!
//! The machines of [`protocol`](crate::protocol) run here as they are shipped. Only their surroundings are
//! modelled: disks, a bucket, and requests that are lost, land late or twice, or lose their answer. A process
//! that takes no step is frozen, so a freeze needs no step.
//!
//! - `search`: breadth-first search;
//! - `bucket`, `node`, `restorer`: the surroundings;
//! - `world`, `steps`, `properties`: the states, the steps between them, and what has to hold;
//! - `tests`: the bounds, and the planted faults that each has to find;
//! - `chase`: a takeover of a fast writer, which is about an end and not about an order;
//! - `damage`: archives of which an object was removed.

mod bucket;
mod chase;
mod damage;
mod node;
mod properties;
mod restorer;
mod search;
mod steps;
mod tests;
mod world;
