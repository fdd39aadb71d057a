//! Published figures of the same workload.

use super::Policy;

/// Number of commits of the published runs, and the default of ours.
pub const PAIRS: u64 = 500;

/// Source of the figures.
pub const SOURCE: &str = "MySQL bug #31876 (InnoDB on point-of-sale computers, Windows XP and Linux, \
    write caches off)";

/// Seconds for [`PAIRS`] under one policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Published {
    /// The policy.
    pub policy: Policy,
    /// True with a binary log.
    pub second_log: bool,
    /// Time on Windows, seconds.
    pub windows_s: f64,
    /// Time on Linux, seconds.
    pub linux_s: f64,
}

const fn row(policy: Policy, second_log: bool, windows_s: f64, linux_s: f64) -> Published {
    Published {
        policy,
        second_log,
        windows_s,
        linux_s,
    }
}

/// All published rows.
pub const P5: [Published; 6] = [
    row(Policy::Force, false, 14.0, 12.0),
    row(Policy::Write, false, 4.0, 0.6),
    row(Policy::Later, false, 4.0, 0.6),
    row(Policy::Force, true, 32.0, 21.0),
    row(Policy::Write, true, 4.0, 0.9),
    row(Policy::Later, true, 3.0, 0.6),
];

/// Published seconds of policy 2 with a log that was opened for write-through and never flushed:
/// lowest and highest.
pub const THROUGH_S: (f64, f64) = (2.0, 2.5);

impl Published {
    /// Returns the row of a policy.
    pub fn of(policy: Policy, second_log: bool) -> Option<Published> {
        P5.into_iter()
            .find(|p| p.policy == policy && p.second_log == second_log)
    }
}

/// Returns the ratios of the published table, each with its name.
pub(super) fn ratios(
    seconds: impl Fn(Policy, bool) -> Option<f64>,
) -> Vec<(&'static str, Option<f64>)> {
    use Policy::{Force, Later, Write};
    let by = |a: (Policy, bool), b: (Policy, bool)| {
        let (a, b) = (seconds(a.0, a.1)?, seconds(b.0, b.1)?);
        (b > 0.0).then(|| a / b)
    };
    vec![
        ("policy 1 : 2, one log", by((Force, false), (Write, false))),
        ("policy 1 : 0, one log", by((Force, false), (Later, false))),
        ("policy 1 : 2, two logs", by((Force, true), (Write, true))),
        ("policy 1 : 0, two logs", by((Force, true), (Later, true))),
        (
            "two logs : one, policy 1",
            by((Force, true), (Force, false)),
        ),
        (
            "two logs : one, policy 2",
            by((Write, true), (Write, false)),
        ),
        (
            "two logs : one, policy 0",
            by((Later, true), (Later, false)),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_what_was_published() {
        let sums = P5
            .iter()
            .fold((0.0, 0.0), |(a, b), p| (a + p.windows_s, b + p.linux_s));
        assert!((sums.0 - 61.0_f64).abs() < 1e-9 && (sums.1 - 35.7_f64).abs() < 1e-9);
        for policy in Policy::ALL {
            for second_log in [false, true] {
                assert!(Published::of(policy, second_log).is_some());
            }
        }
    }
}
