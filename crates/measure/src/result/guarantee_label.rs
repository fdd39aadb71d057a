//! Label of what a row survives, for people.

use logforce_device::{Guarantee, Verdict};

/// Returns the name of the guarantee, with a mark where it is not simply declared; nothing where
/// nothing was measured.
pub fn label(guarantee: Option<Guarantee>, verdict: Option<Verdict>) -> String {
    guarantee.map_or_else(String::new, |g| format!("{g}{}", mark(verdict)))
}

/// The mark of a verdict.
pub fn mark(verdict: Option<Verdict>) -> &'static str {
    match verdict {
        Some(Verdict::Proven) => "+",
        Some(Verdict::Declared) | None => "",
        Some(Verdict::Unknown) => "?",
        Some(_) => "!",
    }
}
