//! How many segments are open at once.

use crate::segments::Segment;
use logforce_device::sync::Mutex;
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, Weak};

/// How many segments of a log stay open that nobody writes. Each is one descriptor, or two where it
/// was read or written past the system's cache too. A host program has sockets to open as well.
const OPEN_AT_MOST: usize = 6;

/// The segments that are open for reading; the one that was wanted longest ago is closed first.
#[derive(Default)]
pub(crate) struct Handles {
    recent: Mutex<VecDeque<Weak<Segment>>>,
}

impl Handles {
    /// Notes that `segment` is open, and closes another one if too many are.
    pub(crate) fn opened(&self, segment: &Arc<Segment>) {
        let this = Arc::downgrade(segment);
        let oldest = {
            let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
            if recent.back().is_some_and(|s| s.ptr_eq(&this)) {
                return;
            }
            recent.retain(|s| !s.ptr_eq(&this) && s.strong_count() > 0);
            recent.push_back(this);
            (recent.len() > OPEN_AT_MOST)
                .then(|| recent.pop_front())
                .flatten()
        };
        if let Some(segment) = oldest.and_then(|s| s.upgrade()) {
            segment.close_reader();
        }
    }
}
