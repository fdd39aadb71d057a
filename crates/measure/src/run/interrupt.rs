//! The user's request to stop.

use crate::MeasureError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that a signal handler raises and that every loop checks. Clones share the flag.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Creates a flag that is not raised.
    pub fn new() -> Self {
        Self::default()
    }

    /// Raises the flag. Returns whether it was raised before.
    pub fn raise(&self) -> bool {
        self.0.swap(true, Ordering::Relaxed)
    }

    /// Returns whether the flag is raised.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns the flag itself, for code outside this crate.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }

    /// Fails with `Interrupted` once the flag is raised.
    pub fn check(&self) -> Result<(), MeasureError> {
        if self.is_raised() {
            Err(MeasureError::Interrupted)
        } else {
            Ok(())
        }
    }
}
