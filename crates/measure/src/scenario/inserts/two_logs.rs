//! Reconciliation of two logs of the same transactions after a run or a crash: transactions that one log
//! lacks are copied from the other.

use super::Sale;
use crate::MeasureError;
use logforce::Log;
use std::collections::BTreeMap;

/// Writes to each of two logs the records that only the other has, and forces them. Then reads both
/// again and checks that they hold the same transactions. Returns the number of copied records. Both
/// logs must just have been opened, because records of a log in use cannot be read before they are
/// durable.
///
/// A transaction goes into the first log, then into the second, and is acknowledged after that. So a
/// transaction that the second lacks was not acknowledged. It could be removed instead. But later records
/// of other clients may be in both logs, and a copied transaction never has to be given up. A
/// transaction that the first lacks was acknowledged without a force, and the second log was forced
/// before the first.
pub fn bring_into_step(first: &Log, second: &Log) -> Result<u64, MeasureError> {
    let (ours, theirs) = (numbers(first)?, numbers(second)?);
    let redone = redo(first, &ours, &theirs)? + redo(second, &theirs, &ours)?;
    if redone > 0 && numbers(first)? != numbers(second)? {
        return Err(MeasureError::NotOffered(
            "the two logs still hold different transactions after they were reconciled".to_owned(),
        ));
    }
    Ok(redone)
}

/// Returns the number of occurrences of each transaction in a log.
fn numbers(log: &Log) -> Result<BTreeMap<u64, u64>, MeasureError> {
    let mut numbers = BTreeMap::new();
    for record in log.read_from(log.front_lsn())? {
        if let Some(sale) = Sale::of_record(&record?.data) {
            *numbers.entry(sale.id).or_default() += 1;
        }
    }
    Ok(numbers)
}

/// Appends to `log`, which holds the transactions `here`, those that only `there` has.
fn redo(
    log: &Log,
    here: &BTreeMap<u64, u64>,
    there: &BTreeMap<u64, u64>,
) -> Result<u64, MeasureError> {
    let mut redone = 0;
    let mut end = None;
    for &id in there.keys().filter(|id| !here.contains_key(id)) {
        // The number determines the record, and reading compared the two.
        end = Some(log.append(&Sale::new(id).record())?.end);
        redone += 1;
    }
    if let Some(end) = end {
        log.force(end)?;
    }
    Ok(redone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use logforce::Options;

    #[test]
    fn what_one_log_lacks_is_redone_from_the_other_and_survives() {
        let dir = tempfile::tempdir().unwrap();
        let options = || Options::new().segment_size(64 << 10).calibrate(false);
        let open = |name: &str| logforce::open_or_create(dir.path().join(name), options());
        let (Ok(first), Ok(second)) = (open("a"), open("b")) else {
            return logforce_testkit::skip!("no log survives loss of power here");
        };
        assert_eq!(bring_into_step(&first, &second).unwrap(), 0);
        for id in [0, 1, 2, 4, 5] {
            first.commit(&Sale::new(id).record()).unwrap();
        }
        for id in [1, 0, 3, 5] {
            second.commit(&Sale::new(id).record()).unwrap();
        }
        assert_eq!(bring_into_step(&first, &second).unwrap(), 3);
        first.close().unwrap();
        second.close().unwrap();
        let (first, second) = (open("a").unwrap(), open("b").unwrap());
        let all: Vec<u64> = numbers(&first).unwrap().into_keys().collect();
        assert_eq!(all, [0, 1, 2, 3, 4, 5]);
        assert_eq!(numbers(&first).unwrap(), numbers(&second).unwrap());
        assert!(numbers(&first).unwrap().values().all(|&times| times == 1));
        assert_eq!(bring_into_step(&first, &second).unwrap(), 0);
    }
}
