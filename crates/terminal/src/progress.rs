//! Telling a waiting user how far it is.

/// Receives progress. Never called inside a timed part.
pub trait Progress {
    /// What is being done now, in a few words.
    fn doing(&self, what: &str);

    /// How much of the whole is done, 0 to 1.
    fn fraction(&self, done: f64);

    /// Announces the work and its duration, in sentences, before it begins.
    fn announce(&self, _: &str) {}
}

/// Tells nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn doing(&self, _: &str) {}
    fn fraction(&self, _: f64) {}
}
