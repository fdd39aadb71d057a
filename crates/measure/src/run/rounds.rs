//! Rounds: every case has one slice in each round, so that noise affects all cases alike.

use super::{MeasureError, MeasuredSlice, Series};
use logforce_terminal::progress::Progress;

/// Position in the run: the round, and the number of cases left in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// Number of the round, from 0.
    pub round: u32,
    /// Number of cases left in this round, this one included.
    pub left: usize,
}

/// Gives each case a turn in each round, and keeps the results once the round is complete. The rounds
/// begin with different cases, so that no case always has the same position.
///
/// # Errors
/// The first error of a turn ends the run. The results of that round are dropped.
pub fn in_turn<C, T>(
    rounds: u32,
    cases: &mut [C],
    progress: &dyn Progress,
    mut turn: impl FnMut(&mut C, Turn) -> Result<Option<T>, MeasureError>,
    mut keep: impl FnMut(&mut C, T),
) -> Result<(), MeasureError> {
    let count = cases.len();
    let all = f64::from(rounds) * count as f64;
    for round in 0..rounds {
        let first = (count as u64 * u64::from(round) / u64::from(rounds)) as usize;
        let mut taken: Vec<Option<T>> = (0..count).map(|_| None).collect();
        for nth in 0..count {
            let index = (first + nth) % count;
            let left = count - nth;
            progress.fraction((f64::from(round) * count as f64 + nth as f64) / all);
            taken[index] = turn(&mut cases[index], Turn { round, left })?;
        }
        for (case, taken) in cases.iter_mut().zip(taken) {
            if let Some(taken) = taken {
                keep(case, taken);
            }
        }
    }
    Ok(())
}

/// A case of a scenario, and the results of its slices.
pub struct Case<K> {
    /// The case.
    pub of: K,
    /// Slices of the complete rounds.
    pub series: Series,
    /// Reason why there are no numbers.
    pub error: Option<MeasureError>,
}

impl<K> Case<K> {
    /// Creates a case without slices.
    pub fn new(of: K) -> Case<K> {
        Case {
            of,
            series: Series::default(),
            error: None,
        }
    }

    /// Creates a case that is not available if `why` gives a reason.
    pub fn refused(of: K, why: Option<impl Into<String>>) -> Case<K> {
        Case {
            error: why.map(|why| MeasureError::NotOffered(why.into())),
            ..Case::new(of)
        }
    }
}

/// Takes `rounds` slices of each case in turn. An error ends its case only. Returns whether the user
/// interrupted the run; the cases then hold the rounds that were complete.
///
/// # Errors
/// `Interrupted` if the first round is not complete.
pub fn run<K>(
    rounds: u32,
    cases: &mut [Case<K>],
    progress: &dyn Progress,
    name: impl Fn(&K) -> String,
    mut slice: impl FnMut(&mut K) -> Result<MeasuredSlice, MeasureError>,
) -> Result<bool, MeasureError> {
    let turn = |case: &mut Case<K>, _| {
        if case.error.is_some() {
            return Ok(None);
        }
        progress.doing(&name(&case.of));
        match slice(&mut case.of) {
            Ok(taken) => Ok(Some(taken)),
            Err(MeasureError::Interrupted) => Err(MeasureError::Interrupted),
            Err(e) => {
                case.error = Some(e);
                Ok(None)
            }
        }
    };
    let ended = in_turn(rounds, cases, progress, turn, |case, taken| {
        case.series.push(&taken);
    });
    let has_rounds = cases.iter().any(|c| !c.series.points.is_empty());
    match ended {
        Err(MeasureError::Interrupted) if has_rounds => Ok(true),
        ended => ended.map(|()| false),
    }
}
