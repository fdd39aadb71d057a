//! Contents of the transactions: the rows that number `n` of a thread writes, and all rows after it.

use logforce_testkit::Rng;
use std::collections::BTreeMap;

/// Number of slots of a thread. A slot has a row or none.
pub const SLOTS: u64 = 300;

/// Change of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    pub slot: u64,
    /// Length of the new row's payload, bytes; `None` to delete the row.
    pub len: Option<usize>,
}

/// Row of a slot: number of its transaction, and length of the payload.
pub type Row = (u64, usize);

fn rng(thread: usize, number: u64) -> Rng {
    Rng::new(number ^ ((thread as u64 + 1) << 40))
}

/// Returns the changes of a transaction: of one slot, of up to 20, or of many.
pub fn changes(thread: usize, number: u64) -> Vec<Change> {
    let mut rng = rng(thread, number);
    let (count, longest) = match rng.below(60) {
        0 => (100 + rng.below(60), 3000),
        1..20 => (2 + rng.below(19), 500),
        _ => (1, 900),
    };
    let first = rng.below(SLOTS);
    (first..first + count)
        .map(|slot| Change {
            slot: slot % SLOTS,
            len: (!rng.one_in(8)).then(|| 10 + rng.below(longest) as usize),
        })
        .collect()
}

/// Returns true if the transaction writes in the second database, too.
pub fn is_wide(thread: usize, number: u64) -> bool {
    rng(thread, number ^ (1 << 39)).one_in(4)
}

/// Returns the last number up to `number` of a transaction that writes in the second database; 0 for none.
pub fn last_wide(thread: usize, number: u64) -> u64 {
    let mut numbers = (1..=number).rev();
    numbers.find(|n| is_wide(thread, *n)).unwrap_or(0)
}

/// Returns all rows of a thread after its transaction `number`, by slot.
pub fn rows(thread: usize, number: u64) -> BTreeMap<u64, Row> {
    let mut rows = BTreeMap::new();
    for number in 1..=number {
        for Change { slot, len } in changes(thread, number) {
            match len {
                Some(len) => rows.insert(slot, (number, len)),
                None => rows.remove(&slot),
            };
        }
    }
    rows
}

/// Returns the payload of a row.
pub fn payload(thread: usize, slot: u64, (number, len): Row) -> Vec<u8> {
    let mut rng = Rng::new(number ^ (slot << 32) ^ ((thread as u64) << 50));
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend(rng.bits().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_changes_a_slot_once() {
        for number in 1..500 {
            let mut slots: Vec<_> = changes(3, number).iter().map(|c| c.slot).collect();
            let count = slots.len();
            slots.sort_unstable();
            slots.dedup();
            assert_eq!(slots.len(), count, "{number}");
        }
    }
}
