//! The size of the next segment.

use crate::engine::Engine;

impl Engine {
    /// How many bytes the next segment should have, while appends wait for `requested` bytes.
    pub(crate) fn next_segment_len(&self, requested: u64) -> u64 {
        let held = self.view.segments().bytes();
        let now = self.runtime().now();
        self.config.sizes.next(held, requested, now)
    }
}
