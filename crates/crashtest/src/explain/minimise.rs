//! The smallest part of a set with which a check still fails.

use anyhow::Result;

/// Returns a part of `set` for which `fails` returns true, as it does for `set`. If more elements never make a failure
/// go away, every element of the part is needed. Ends with a larger part when `budget` calls are used up.
///
/// Each step finds one needed element, the last of the shortest beginning that fails, by halving.
pub(crate) fn minimise<T: Clone>(
    set: Vec<T>,
    budget: &mut u32,
    fails: &mut dyn FnMut(&[T]) -> Result<bool>,
) -> Result<Vec<T>> {
    let (mut needed, mut rest) = (Vec::new(), set);
    // At each step `needed` and `rest` together fail.
    while !rest.is_empty() {
        if !needed.is_empty() && spend(budget) && fails(&needed)? {
            return Ok(needed);
        }
        let (mut passes, mut failing) = (0, rest.len());
        while failing - passes > 1 && spend(budget) {
            let half = passes + (failing - passes) / 2;
            match fails(&[&needed[..], &rest[..half]].concat())? {
                true => failing = half,
                false => passes = half,
            }
        }
        rest.truncate(failing);
        if *budget == 0 {
            return Ok([needed, rest].concat());
        }
        needed.extend(rest.pop());
    }
    Ok(needed)
}

/// Takes one call from the budget; returns false if there is none.
fn spend(budget: &mut u32) -> bool {
    let is_left = *budget > 0;
    *budget = budget.saturating_sub(1);
    is_left
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the part of 0 to 99 that is left if a check fails with all of `needed`, and the number of checks.
    fn left(needed: &[u32], most: u32) -> (Vec<u32>, u32) {
        let mut budget = most;
        let set: Vec<u32> = (0..100).collect();
        let left = minimise(set, &mut budget, &mut |part| {
            Ok(needed.iter().all(|n| part.contains(n)))
        });
        (left.unwrap(), most - budget)
    }

    #[test]
    fn what_is_needed_is_left() {
        for needed in [&[3][..], &[0, 99], &[17, 18, 60], &[5, 25, 45, 65, 85]] {
            let (mut left, checks) = left(needed, 1000);
            left.sort_unstable();
            assert_eq!(left, needed);
            assert!(checks <= 9 * needed.len() as u32, "{needed:?}: {checks}");
        }
    }

    #[test]
    fn the_budget_ends_the_search_with_a_set_that_fails() {
        let (left, checks) = left(&[0, 99], 5);
        assert_eq!(checks, 5);
        assert!(left.contains(&0) && left.contains(&99));
    }
}
