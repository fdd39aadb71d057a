//! What a database answers, as an error of the measurement.

use logforce_measure::MeasureError;
use std::error::Error;

/// The answer of `system` while `doing`, with its causes.
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
