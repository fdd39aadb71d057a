//! The user's wish to stop.

use crate::MeasureError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that a signal handler raises and every loop looks at. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// A lowered flag.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks everybody to stop. Returns whether it had been asked before.
    pub fn raise(&self) -> bool {
        self.0.swap(true, Ordering::Relaxed)
    }

    /// Whether stopping was asked for.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The flag itself, for code that knows nothing of measuring.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }

    /// `Err(Interrupted)` once stopping was asked for.
    pub fn check(&self) -> Result<(), MeasureError> {
        if self.is_raised() {
            Err(MeasureError::Interrupted)
        } else {
            Ok(())
        }
    }
}
