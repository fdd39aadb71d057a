//! What a row survives, for people.

use logforce_device::{Guarantee, Verdict};

/// The name of the guarantee, with a mark where it is not simply declared; nothing where nothing was
/// measured.
pub fn survives(guarantee: Option<Guarantee>, verdict: Option<Verdict>) -> String {
    guarantee.map_or_else(String::new, |g| format!("{g}{}", mark(verdict)))
}

/// In front of a conclusion where no row survives a loss of power, as in memory: it is about something
/// else then. Rows without a guarantee, such as those that were not measured, say nothing.
pub fn warned(
    rows: impl Iterator<Item = (Option<Guarantee>, Option<Verdict>)>,
    conclusion: String,
) -> String {
    let known: Vec<_> = rows.filter_map(|(g, v)| Some((g?, v))).collect();
    let is_safe = |(guarantee, verdict): &(Guarantee, Option<Verdict>)| {
        let is_refuted = matches!(verdict, Some(Verdict::Contradicted | Verdict::Implausible));
        *guarantee == Guarantee::PowerLoss && !is_refuted
    };
    if known.is_empty() || known.iter().any(is_safe) {
        return conclusion;
    }
    format!(
        "Nothing that was measured here survives loss of power, so the figures say what the place takes, and not what a \
         durable commit costs. {conclusion}"
    )
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

#[cfg(test)]
mod tests {
    use super::*;
    use Guarantee::{PowerLoss, ProcessCrash};

    #[test]
    fn a_conclusion_about_memory_says_so_first() {
        let of = |rows: &[(Option<Guarantee>, Option<Verdict>)]| {
            warned(rows.iter().copied(), "Use x.".to_owned()) != "Use x."
        };
        let safe = (Some(PowerLoss), Some(Verdict::Declared));
        let memory = (Some(ProcessCrash), Some(Verdict::Contradicted));
        assert!(of(&[memory, (None, None)]));
        assert!(of(&[(Some(PowerLoss), Some(Verdict::Implausible))]));
        assert!(!of(&[memory, safe]));
        assert!(!of(&[(Some(PowerLoss), Some(Verdict::Unknown))]));
        assert!(!of(&[(None, None)]) && !of(&[]), "nothing is known");
    }
}
