//! Keys and values.

/// A key; keys are ordered by their bytes.
pub type Key = [u8; 16];

/// Generator of keys and values. Keys with even numbers are loaded; puts take any number, so half of
/// them add new keys.
#[derive(Debug, Clone, Copy)]
pub struct Keys {
    /// Number of loaded keys.
    pub loaded: u64,
    /// Size of a value, bytes.
    pub value: usize,
}

impl Keys {
    /// Returns the key of a number.
    pub fn key(number: u64) -> Key {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&number.to_be_bytes());
        key[8..].copy_from_slice(&mix(number).to_be_bytes());
        key
    }

    /// Returns a value, a different one for each `version`.
    pub fn value(&self, number: u64, version: u64) -> Vec<u8> {
        let mut state = mix(number ^ version.rotate_left(32));
        let mut value = Vec::with_capacity(self.value + 8);
        while value.len() < self.value {
            state = mix(state);
            value.extend_from_slice(&state.to_le_bytes());
        }
        value.truncate(self.value);
        value
    }

    /// Returns the keys and values to load, ascending.
    pub fn to_load(self) -> impl Iterator<Item = (Key, Vec<u8>)> {
        (0..self.loaded).map(move |n| (Keys::key(2 * n), self.value(2 * n, 0)))
    }
}

/// Pseudo-random numbers, the same for every store.
#[derive(Debug, Clone)]
pub struct Numbers(u64);

impl Numbers {
    /// Returns a generator for a seed.
    pub fn new(seed: u64) -> Self {
        Numbers(mix(seed))
    }

    /// Returns the next number, below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0) % end.max(1)
    }
}

fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_ascend_and_values_differ() {
        let keys = Keys {
            loaded: 100,
            value: 30,
        };
        let loaded: Vec<_> = keys.to_load().collect();
        assert!(loaded.len() == 100 && loaded.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(keys.value(7, 1).len(), 30);
        assert_ne!(keys.value(7, 1), keys.value(7, 2));
        let mut numbers = Numbers::new(1);
        let seen: std::collections::HashSet<u64> = (0..200).map(|_| numbers.below(50)).collect();
        assert!(seen.len() > 40 && seen.iter().all(|n| *n < 50));
    }
}
