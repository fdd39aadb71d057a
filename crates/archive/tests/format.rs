//! Bytes of the objects: round trips, damage of each byte, keys, hostile headers, and the normative page.

#[path = "format/damage.rs"]
mod damage;
#[path = "format/page.rs"]
mod page;
#[path = "format/round_trip.rs"]
mod round_trip;
#[path = "format/samples.rs"]
mod samples;
