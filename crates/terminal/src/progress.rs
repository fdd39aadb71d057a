//! Progress reports for a waiting user.

/// Receives progress. Never called inside a timed part.
pub trait Progress {
    /// Reports the current work, in a few words.
    fn doing(&self, what: &str);

    /// Reports the part of the whole that is done, 0 to 1.
    fn fraction(&self, done: f64);

    /// Announces the work and its duration, in sentences, before it begins.
    fn announce(&self, _: &str) {}
}

/// Progress that reports nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn doing(&self, _: &str) {}
    fn fraction(&self, _: f64) {}
}
