//! A directory: its durable names, and the changes since.

use super::counts::{FaultCounts, FaultKind};
use super::plan::Survival;
use crate::Rng;
use logforce_device::Whereabouts;
use std::collections::{BTreeMap, BTreeSet};

/// A change of names that is not durable yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    Create {
        name: String,
        inode: u64,
    },
    Rename {
        from: String,
        to: String,
        inode: u64,
    },
    Remove {
        name: String,
    },
}

/// Result of a crash for a change of names that was not durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Left {
    /// The change is lost.
    Lost,
    /// The whole change is kept.
    Kept,
    /// After a rename both names exist. Two entries of a directory can lie in two blocks, and only a journal
    /// writes both or none.
    Both,
    /// After a rename neither name exists.
    Neither,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    /// Identity of the directory.
    pub id: u64,
    /// Destination of its path, if the path does not lead to this directory.
    pub elsewhere: Option<Whereabouts>,
    /// Names as the running system sees them.
    pub now: BTreeMap<String, u64>,
    pub stable: BTreeMap<String, u64>,
    pub pending: Vec<Change>,
}

impl Names {
    pub fn new(id: u64) -> Self {
        Names {
            id,
            ..Names::default()
        }
    }

    pub fn change(&mut self, change: Change) {
        match &change {
            Change::Create { name, inode } => {
                self.now.insert(name.clone(), *inode);
            }
            Change::Rename { from, to, inode } => {
                self.now.remove(from);
                self.now.insert(to.clone(), *inode);
            }
            Change::Remove { name } => {
                self.now.remove(name);
            }
        }
        self.pending.push(change);
    }

    /// Returns the possible results of a crash for each pending change. With `torn`, a rename is two changes.
    pub fn may_leave(&self, torn: bool) -> Vec<Vec<Left>> {
        let of = |change: &Change| match change {
            Change::Rename { .. } if torn => {
                vec![Left::Lost, Left::Kept, Left::Both, Left::Neither]
            }
            _ => vec![Left::Lost, Left::Kept],
        };
        self.pending.iter().map(of).collect()
    }

    pub fn sync(&mut self) {
        self.stable.clone_from(&self.now);
        self.pending.clear();
    }

    /// Decides which changes a crash leaves.
    pub fn crash(&mut self, survival: Survival, rng: &mut Rng, faults: &FaultCounts) {
        let count = self.pending.len() as u64;
        let up_to = match survival {
            Survival::Lost => 0,
            Survival::Prefix => rng.below(count + 1),
            _ => count,
        };
        let mut choose = |i: u64| match survival {
            Survival::Writes | Survival::Sectors => rng.one_in(2),
            _ => i < up_to,
        };
        let left = |i| if choose(i) { Left::Kept } else { Left::Lost };
        let left: Vec<Left> = (0..count).map(left).collect();
        self.leave(&left, faults);
    }

    /// Applies the given results of a crash, one for each pending change. A change of a name is lost if an
    /// earlier change of the same name was lost: a filesystem may reorder changes of different entries, never
    /// of the same one. So each name may have any of its values since the last sync, combined with any values
    /// of the others. The exception are renames that are not torn: both of their names change, or neither.
    pub fn leave(&mut self, left: &[Left], faults: &FaultCounts) {
        assert_eq!(left.len(), self.pending.len(), "one for each change");
        let mut lost = BTreeSet::new();
        for (change, left) in self.pending.drain(..).zip(left) {
            match change {
                Change::Create { name, inode } => {
                    if *left == Left::Kept && !lost.contains(&name) {
                        self.stable.insert(name, inode);
                    } else {
                        lost.insert(name);
                    }
                }
                Change::Remove { name } => {
                    if *left == Left::Kept && !lost.contains(&name) {
                        self.stable.remove(&name);
                    } else {
                        lost.insert(name);
                    }
                }
                Change::Rename { from, to, inode } => {
                    let mut removes = *left != Left::Lost && *left != Left::Both;
                    let mut adds = *left != Left::Lost && *left != Left::Neither;
                    removes &= !lost.contains(&from);
                    adds &= !lost.contains(&to);
                    if *left == Left::Kept && !(removes && adds) {
                        (removes, adds) = (false, false);
                    }
                    if removes {
                        self.stable.remove(&from);
                    } else {
                        lost.insert(from);
                    }
                    if adds {
                        self.stable.insert(to, inode);
                    } else {
                        lost.insert(to);
                    }
                }
            }
        }
        let (now, stable) = (&self.now, &self.stable);
        let vanished = now.iter().filter(|(n, i)| stable.get(*n) != Some(*i));
        faults.add(FaultKind::NameVanished, vanished.count() as u64);
        let back = stable.keys().filter(|n| !now.contains_key(*n));
        faults.add(FaultKind::NameBack, back.count() as u64);
        self.now.clone_from(&self.stable);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(name: &str, inode: u64) -> Change {
        Change::Create {
            name: name.to_owned(),
            inode,
        }
    }

    #[test]
    fn a_rename_never_outlives_the_creation() {
        let mut seen = BTreeSet::new();
        for seed in 0..200 {
            let mut names = Names::new(1);
            names.change(create("a", 1));
            names.sync();
            names.change(create("b.tmp", 2));
            names.change(Change::Rename {
                from: "b.tmp".into(),
                to: "b".into(),
                inode: 2,
            });
            names.change(Change::Remove { name: "a".into() });
            let mut rng = Rng::new(seed);
            names.crash(rng.pick(&Survival::ALL), &mut rng, &FaultCounts::default());
            seen.insert(names.now.keys().cloned().collect::<Vec<_>>().join(" "));
        }
        let all = ["", "a", "a b", "a b.tmp", "b", "b.tmp"];
        assert_eq!(seen.iter().map(String::as_str).collect::<Vec<_>>(), all);
    }

    #[test]
    fn a_synced_file_is_never_lost_by_its_rename() {
        for seed in 0..500 {
            let mut names = Names::new(1);
            names.change(create("old", 1));
            names.sync();
            names.change(Change::Rename {
                from: "old".into(),
                to: "new".into(),
                inode: 1,
            });
            names.change(create("old", 2));
            let mut rng = Rng::new(seed);
            names.crash(rng.pick(&Survival::ALL), &mut rng, &FaultCounts::default());
            assert!(names.now.values().any(|&i| i == 1), "{:?}", names.now);
        }
    }

    /// Applies every combination of results, and compares the resulting states.
    #[test]
    fn each_names_values_are_combined() {
        let states = |torn| {
            let mut names = Names::new(1);
            names.change(create("a", 1));
            names.sync();
            names.change(Change::Rename {
                from: "a".into(),
                to: "b".into(),
                inode: 1,
            });
            names.change(create("a", 2));
            let mut states = BTreeSet::new();
            let may = names.may_leave(torn);
            for first in &may[0] {
                for second in &may[1] {
                    let mut names = names.clone();
                    names.leave(&[*first, *second], &FaultCounts::default());
                    states.insert(names.now.into_iter().collect::<Vec<_>>());
                }
            }
            let show = |s: Vec<(String, u64)>| {
                let one = |(name, inode)| format!("{name}{inode}");
                s.into_iter().map(one).collect::<Vec<String>>().join(" ")
            };
            states.into_iter().map(show).collect::<Vec<String>>()
        };
        assert_eq!(states(false), ["a1", "a2 b1", "b1"]);
        assert_eq!(states(true), ["", "a1", "a1 b1", "a2", "a2 b1", "b1"]);
    }
}
