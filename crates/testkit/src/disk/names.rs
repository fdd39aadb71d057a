//! A directory: the names that are durable, and the changes since.

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

/// What a crash leaves of a change of names that was not durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Left {
    /// Nothing.
    Lost,
    /// All of it.
    Kept,
    /// Of a rename: the new name, and the old one as well. Two entries of a directory lie in two
    /// blocks, and nothing but a journal writes both or none.
    Both,
    /// Of a rename: neither name.
    Neither,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    /// Identity of the directory.
    pub id: u64,
    /// Where its path leads, if not to it.
    pub elsewhere: Option<Whereabouts>,
    /// As the running system sees it.
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

    /// What a crash may leave of each pending change. `torn`: renames are two changes.
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

    /// What a crash leaves, given for each pending change. One to a name is lost if an earlier one to
    /// the same name was: a filesystem may reorder changes to different entries, never to the same.
    /// So of each name's values since the last sync any may be there, and each with any of the
    /// others', but for renames that are not torn: those are there at both ends or at none.
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

    /// Every combination that can be given, and the states that result.
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
