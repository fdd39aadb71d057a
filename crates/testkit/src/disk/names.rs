//! A directory: the names that are durable, and the changes since.

use super::counts::{FaultCounts, FaultKind};
use super::plan::Survival;
use crate::Rng;
use std::collections::{BTreeMap, BTreeSet};

/// A change of names that is not durable yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    Create { name: String, inode: u64 },
    Rename { from: String, to: String },
    Remove { name: String },
}

impl Change {
    fn names(&self) -> [&String; 2] {
        match self {
            Change::Create { name, .. } | Change::Remove { name } => [name, name],
            Change::Rename { from, to } => [from, to],
        }
    }

    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            Change::Create { name, inode } => {
                names.insert(name.clone(), *inode);
            }
            Change::Rename { from, to } => {
                if let Some(inode) = names.remove(from) {
                    names.insert(to.clone(), inode);
                }
            }
            Change::Remove { name } => {
                names.remove(name);
            }
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    /// Identity of the directory.
    pub id: u64,
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
        change.apply(&mut self.now);
        self.pending.push(change);
    }

    pub fn sync(&mut self) {
        self.stable.clone_from(&self.now);
        self.pending.clear();
    }

    /// Decides which changes a crash leaves. A change is lost if an earlier one to the same name
    /// was: a filesystem may reorder changes to different entries, never to the same.
    pub fn crash(&mut self, survival: Survival, rng: &mut Rng, faults: &FaultCounts) {
        let count = self.pending.len() as u64;
        let upto = match survival {
            Survival::Lost => 0,
            Survival::Prefix => rng.below(count + 1),
            _ => count,
        };
        let mut lost = BTreeSet::new();
        for (change, i) in self.pending.drain(..).zip(0..) {
            let chosen = match survival {
                Survival::Writes | Survival::Sectors => rng.one_in(2),
                _ => i < upto,
            };
            if chosen && !change.names().iter().any(|n| lost.contains(*n)) {
                change.apply(&mut self.stable);
            } else {
                lost.extend(change.names().map(String::clone));
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
            });
            names.change(create("old", 2));
            let mut rng = Rng::new(seed);
            names.crash(rng.pick(&Survival::ALL), &mut rng, &FaultCounts::default());
            assert!(names.now.values().any(|&i| i == 1), "{:?}", names.now);
        }
    }
}
