//! Space that is promised to appends that will come.

/// What the permits of [`Log::reserve`](crate::Log::reserve) hold together.
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    appends: u64,
    /// Of their frames.
    bytes: usize,
    /// An append was told to wait while permits held space: it must be woken when one gives it back.
    pub(super) kept_one_waiting: bool,
}

impl Reservations {
    /// How many appends have space promised.
    pub(super) fn appends(&self) -> u64 {
        self.appends
    }

    /// Bytes of frames that are promised.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.appends == 0
    }

    /// Promises space for one append.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.appends += 1;
        self.bytes += bytes;
    }

    /// Takes a promise back. Returns whether appends wait that may find space now.
    pub(crate) fn release(&mut self, bytes: usize) -> bool {
        self.appends -= 1;
        self.bytes -= bytes;
        std::mem::take(&mut self.kept_one_waiting)
    }
}
