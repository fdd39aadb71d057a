//! Breadth-first search over all states of a model. So a violation comes with a shortest way to it.

use std::collections::{HashSet, VecDeque};
use std::fmt::Debug;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::ops::Deref;
use std::rc::Rc;

/// Steps from a state. Each has the state that follows, or the property that the step violates.
pub(super) type Followed<M> = Vec<(<M as Model>::Step, Result<<M as Model>::State, String>)>;

/// Model: states, and the steps from each.
pub(super) trait Model: Sized {
    type State: Clone + Hash;
    type Step: Debug;

    fn start(&self) -> Self::State;
    fn follow(&self, state: &Self::State) -> Followed<Self>;
}

/// Result of a search.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) states: usize,
    pub(super) depth: usize,
    pub(super) violation: Option<Violation>,
}

/// Violated property, and a shortest way to it.
#[derive(Debug)]
pub(super) struct Violation {
    pub(super) property: String,
    pub(super) steps: Vec<String>,
}

/// Hasher of values that are hashes.
#[derive(Default)]
struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("hashes are written as numbers");
    }
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// Searches all states.
///
/// A state is remembered by 64 bits of its hash. Among 10 million states two share them with a probability of
/// 3 in a million; the second one would be passed over.
pub(super) fn search<M: Model>(model: &M) -> Found {
    let mut seen: HashSet<u64, BuildHasherDefault<Same>> = HashSet::default();
    // For each state: the one before it, and the number of the step between.
    let mut ways: Vec<(u32, u32)> = vec![(0, 0)];
    let mut next = VecDeque::from([(0_u32, 0_usize, model.start())]);
    let mut deepest = 0;
    while let Some((id, depth, state)) = next.pop_front() {
        deepest = depth;
        let here = fingerprint(&state);
        for (number, (_, followed)) in model.follow(&state).into_iter().enumerate() {
            // A request that is repeated for ever, without a fault.
            let followed = followed.and_then(|followed| match fingerprint(&followed) {
                there if there == here => Err("a step changes nothing".to_owned()),
                there => Ok((followed, there)),
            });
            match followed {
                Err(property) => {
                    let steps = way(model, &ways, id, number as u32);
                    return Found {
                        states: ways.len(),
                        depth: depth + 1,
                        violation: Some(Violation { property, steps }),
                    };
                }
                Ok((followed, there)) => {
                    if seen.insert(there) {
                        next.push_back((ways.len() as u32, depth + 1, followed));
                        ways.push((id, number as u32));
                    }
                }
            }
        }
    }
    Found {
        states: ways.len(),
        depth: deepest,
        violation: None,
    }
}

/// Part of a state, shared with the states that have the same, and hashed once.
#[derive(Debug)]
pub(super) struct Shared<T> {
    value: Rc<T>,
    hash: u64,
}

impl<T: Hash + Clone> Shared<T> {
    pub(super) fn new(value: T) -> Shared<T> {
        let hash = fingerprint(&value);
        let value = Rc::new(value);
        Shared { value, hash }
    }

    /// Changes the part in this state alone.
    pub(super) fn change<R>(&mut self, change: impl FnOnce(&mut T) -> R) -> R {
        let result = change(Rc::make_mut(&mut self.value));
        self.hash = fingerprint(&*self.value);
        result
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        let (value, hash) = (self.value.clone(), self.hash);
        Shared { value, hash }
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Hash for Shared<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// Hasher that is faster than that of the standard library, which resists attacks.
#[derive(Default)]
struct Mix(u64);

impl Mix {
    fn mix(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        let mixed = self.0.wrapping_mul(0xD6E8_FEB8_6659_FD93);
        mixed ^ (mixed >> 32)
    }
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
    }
    fn write_u8(&mut self, byte: u8) {
        self.mix(u64::from(byte));
    }
    fn write_u64(&mut self, word: u64) {
        self.mix(word.wrapping_add(0xA076_1D64_78BD_642F));
    }
    fn write_usize(&mut self, word: usize) {
        self.mix(word as u64);
    }
    fn write_isize(&mut self, word: isize) {
        self.mix(word as u64);
    }
}

pub(super) fn fingerprint<T: Hash>(value: &T) -> u64 {
    let mut hasher = Mix::default();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Returns the steps from the start to the last one.
fn way<M: Model>(model: &M, ways: &[(u32, u32)], mut id: u32, last: u32) -> Vec<String> {
    let mut numbers = vec![last];
    while id != 0 {
        let (before, number) = ways[id as usize];
        numbers.push(number);
        id = before;
    }
    let mut state = model.start();
    let mut steps = Vec::new();
    for number in numbers.into_iter().rev() {
        let (step, followed) = model.follow(&state).swap_remove(number as usize);
        steps.push(format!("{step:?}"));
        if let Ok(followed) = followed {
            state = followed;
        }
    }
    steps
}
