//! Label that tells people which failure a row's commits survive.

use logforce_device::{Guarantee, Verdict};

/// Returns the name of the guarantee, with a mark if its verdict is not simply "declared". The label
/// is empty for a row that was not measured.
pub fn label(guarantee: Option<Guarantee>, verdict: Option<Verdict>) -> String {
    guarantee.map_or_else(String::new, |g| format!("{g}{}", mark(verdict)))
}

/// Returns the mark of a verdict.
pub fn mark(verdict: Option<Verdict>) -> &'static str {
    match verdict {
        Some(Verdict::Proven) => "+",
        Some(Verdict::Declared) | None => "",
        Some(Verdict::Unknown) => "?",
        Some(_) => "!",
    }
}
