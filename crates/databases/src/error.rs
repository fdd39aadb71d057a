//! Errors of databases, as errors of the measurement.

use logforce_measure::MeasureError;
use std::error::Error;

/// Returns a function that turns an error of `system` while `doing` into a measurement error with all
/// causes.
pub fn said<E: Error>(system: &'static str, doing: &'static str) -> impl FnOnce(E) -> MeasureError {
    move |e| {
        let mut words = format!("{system}: {doing}: {e}");
        let mut cause = e.source();
        while let Some(deeper) = cause {
            let more = deeper.to_string();
            if !words.contains(&more) {
                words = format!("{words}: {more}");
            }
            cause = deeper.source();
        }
        MeasureError::NotOffered(words)
    }
}
