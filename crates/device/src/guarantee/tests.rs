use super::*;

/// For all guarantees and verdicts: the requirements with which an opening accepts them.
#[test]
fn less_than_declared_is_accepted_by_name_alone() {
    use Guarantee::{OsCrash, PowerLoss, ProcessCrash};
    use Verdict::*;
    let is_met = |got, by, guarantee, verdict| {
        Assessment::new(got, by, Source::Nobody, "").meets(guarantee, verdict)
    };
    for by in [Contradicted, Implausible, Unknown, Declared, Proven] {
        for verdict in [Contradicted, Implausible, Unknown, Declared, Proven] {
            let is_known = by >= verdict;
            assert_eq!(is_met(PowerLoss, by, PowerLoss, verdict), is_known);
            assert_eq!(is_met(PowerLoss, by, OsCrash, verdict), is_known);
            assert!(is_met(PowerLoss, by, ProcessCrash, verdict));
            // The weaker guarantee is certain, but no run has proven it.
            assert_eq!(is_met(OsCrash, by, OsCrash, verdict), verdict <= Declared);
            assert!(is_met(ProcessCrash, by, ProcessCrash, verdict));
            assert!(!is_met(OsCrash, by, PowerLoss, verdict));
            assert!(!is_met(ProcessCrash, by, OsCrash, verdict));
        }
    }
}

#[test]
fn a_doubted_guarantee_is_printed_so() {
    for guarantee in Guarantee::ALL {
        let plain = Granted::from(guarantee);
        assert_eq!(plain.to_string(), guarantee.name());
        let doubted = Granted::new(guarantee, Verdict::Unknown);
        let mark = if guarantee == Guarantee::PowerLoss {
            "?"
        } else {
            ""
        };
        assert_eq!(doubted.to_string(), format!("{guarantee}{mark}"));
        assert!(doubted == guarantee && doubted >= guarantee && doubted <= plain);
        assert_eq!(
            format!("{doubted:>14}|"),
            format!("{:>14}|", doubted.name())
        );
    }
}
