//! Events and wakers that threads and tasks wait on, poison, and a lock that may be held across a device
//! call.

pub mod event;
#[cfg(all(test, loom))]
mod loom_tests;
pub mod poison;
pub mod reason;
pub mod runtime_mutex;
pub mod wakers;
