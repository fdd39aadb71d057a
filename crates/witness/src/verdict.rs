//! Verdicts: conclusions from the rounds of a run.

use crate::ledger::{Control, Phase, Round, RoundState, State, Totals};
use logforce::Verdict;

/// Conclusion of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conclusion {
    /// Verdict, as far as there is one.
    pub verdict: Judgement,
    /// Explanation in words, with the next step.
    pub text: String,
}

/// A run's verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// No acknowledged record was lost, over at least one power cut.
    Proven,
    /// An acknowledged record was lost.
    Contradicted,
    /// The control phase has shown that the run can detect loss. No measured round was checked yet.
    Ready,
    /// The rounds prove nothing.
    Inconclusive,
}

impl Judgement {
    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Judgement::Proven => Verdict::Proven.name(),
            Judgement::Contradicted => Verdict::Contradicted.name(),
            Judgement::Ready => "ready",
            Judgement::Inconclusive => "inconclusive",
        }
    }
}

const NO_CUT: &str = "Pull the plug (or cut the power of a virtual machine's host) while `write` \
                      runs; ending a process, shutting down, or resetting a virtual machine does not count";

/// Returns the conclusion after the latest round was checked.
pub fn conclude(state: &State, round: &Round) -> Conclusion {
    let t = Totals::of(state);
    let method = &state.subject.method;
    let say = |verdict, text| Conclusion { verdict, text };
    if t.lost > 0 {
        return say(
            Judgement::Contradicted,
            format!(
                "{method} lost {} of {} acknowledged commits over {} cut{}. Do not trust it here: \
                 logs that ask for power-loss refuse it from now on.",
                t.lost,
                t.expected,
                t.cuts,
                plural(t.cuts)
            ),
        );
    }
    if !t.sees_loss() {
        let why = match state.subject.control {
            Control::Buffered => {
                format!("the control phase has lost nothing yet. {NO_CUT}.")
            }
            Control::Direct => format!(
                "the device's cache lost nothing: the device has no cache, protects it against loss \
                 of power, or had written it to the medium in time. {NO_CUT}; or begin again in an \
                 empty directory with `--control buffered`."
            ),
        };
        return say(
            Judgement::Inconclusive,
            format!("This run has not shown yet that it can detect loss: {why}"),
        );
    }
    if round.phase == Phase::Control {
        return say(
            Judgement::Ready,
            format!(
                "The control phase lost {} acknowledged writes: this run can detect loss. Now run \
                 `logforce powercut write` again; it measures {method}.",
                t.control_lost
            ),
        );
    }
    let this_showed_a_cut = matches!(&round.state,
        RoundState::Checked(o) if o.unforced_lost > 0 && o.expected > 0);
    if !this_showed_a_cut {
        let before = match t.cuts {
            0 => String::new(),
            n => format!(
                " Before, {method} kept all of {} acknowledged commits over {n} cut{}.",
                t.expected,
                plural(n)
            ),
        };
        return say(
            Judgement::Inconclusive,
            format!(
                "Round {} shows no power cut: no unforced data is missing. {NO_CUT}. The round does \
                 not count.{before}",
                round.number
            ),
        );
    }
    say(
        Judgement::Proven,
        format!(
            "{method} kept all of {} acknowledged commits over {} cut{}. More rounds make this more certain.",
            t.expected,
            t.cuts,
            plural(t.cuts)
        ),
    )
}

fn plural(n: u32) -> &'static str {
    if n == 1 { "" } else { "s" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RoundOutcome, Subject};

    fn state(rounds: &[(Phase, u64, u64, u64)]) -> State {
        let rounds = rounds.iter().enumerate();
        State {
            subject: Subject {
                method: "dsync".to_owned(),
                control: Control::Buffered,
                volume: "v".to_owned(),
                place: "p".to_owned(),
                tool: "t".to_owned(),
            },
            rounds: rounds
                .map(|(n, &(phase, expected, lost, unforced_lost))| Round {
                    number: n as u32 + 1,
                    phase,
                    boot: String::new(),
                    acknowledged: expected,
                    unforced: 100,
                    front: 0,
                    state: RoundState::Checked(RoundOutcome {
                        expected,
                        found: expected - lost,
                        lost,
                        unforced: 100,
                        unforced_lost,
                        boot: String::new(),
                        findings: Vec::new(),
                    }),
                })
                .collect(),
        }
    }

    fn concluded(rounds: &[(Phase, u64, u64, u64)]) -> (Judgement, String) {
        let state = state(rounds);
        let c = conclude(&state, state.rounds.last().unwrap());
        (c.verdict, c.text)
    }

    use Phase::{Control as C, Measured as M};

    #[test]
    fn what_rounds_amount_to() {
        for (rounds, verdict, words) in [
            (
                &[(C, 0, 0, 0)][..],
                Judgement::Inconclusive,
                "can detect loss",
            ),
            (&[(C, 0, 0, 0), (C, 0, 0, 9)], Judgement::Ready, "lost 9"),
            (
                &[(C, 0, 0, 9), (M, 500, 0, 3)],
                Judgement::Proven,
                "all of 500 acknowledged commits over 1 cut.",
            ),
            (
                &[(C, 0, 0, 9), (M, 500, 0, 3), (M, 100, 0, 1)],
                Judgement::Proven,
                "all of 600 acknowledged commits over 2 cuts",
            ),
            (
                &[(C, 0, 0, 9), (M, 500, 0, 0)],
                Judgement::Inconclusive,
                "Round 2 shows no power cut",
            ),
            (
                &[(C, 0, 0, 9), (M, 500, 0, 2), (M, 70, 0, 0)],
                Judgement::Inconclusive,
                "Before, dsync kept all of 500",
            ),
            (
                &[(C, 0, 0, 9), (M, 0, 0, 5)],
                Judgement::Inconclusive,
                "shows no power cut",
            ),
            (
                &[(C, 0, 0, 9), (M, 500, 0, 2), (M, 70, 1, 2)],
                Judgement::Contradicted,
                "lost 1 of 570",
            ),
            (
                &[(C, 0, 0, 9), (M, 500, 1, 0)],
                Judgement::Contradicted,
                "lost 1 of 500",
            ),
        ] {
            let (got, text) = concluded(rounds);
            assert_eq!(got, verdict, "{rounds:?}: {text}");
            assert!(text.contains(words), "{text}");
        }
    }
}
