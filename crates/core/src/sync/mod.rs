//! Events and wakers that threads and tasks wait on, and a lock that may be held across a device call.

pub(crate) mod event;
#[cfg(all(test, loom))]
mod loom_tests;
pub(crate) mod poison;
pub(crate) mod pool;
pub(crate) mod runtime_mutex;
pub(crate) mod wake;
pub(crate) mod wakers;
pub(crate) mod work_event;
