//! Truncating the log at either end, and the pins that hold its front.

pub(crate) mod back;
pub(crate) mod front;
mod hold;
pub(crate) mod pin;
