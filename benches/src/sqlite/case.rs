//! Workloads.

use super::contender::Contender;

/// Work of a case. A commit, a read or another operation below is counted as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Transactions that insert rows of 100 bytes.
    Commits {
        /// True for the first 500 commits of a new database, whose journal grows. False for a database
        /// whose log is overwritten since its first checkpoint.
        fresh: bool,
        /// Number of connections, each with a thread.
        connections: u32,
        /// Rows of a transaction.
        rows: u32,
    },
    /// Reads of one row by its key, anywhere in the table.
    Points,
    /// Reads of the whole table.
    Scan,
    /// Loads of the whole table into a new database in one transaction.
    Bulk,
    /// Checkpoints of a log of more than 4 MB.
    Checkpoint,
    /// Opens the database, commits one row and closes the database.
    Short,
}

/// A workload with the settings of its database.
#[derive(Debug, Clone)]
pub struct Case {
    /// Name in reports, and for `--only`.
    pub name: String,
    /// Work.
    pub task: Task,
    /// Value of `journal_mode`; `memory` has a database `:memory:`.
    pub journal: &'static str,
    /// Value of `synchronous`.
    pub synchronous: &'static str,
    /// Contenders beside stock.
    pub contenders: &'static [Contender],
}

impl Case {
    fn new(task: Task, journal: &'static str, synchronous: &'static str) -> Case {
        let (what, contenders): (_, &[_]) = match task {
            Task::Commits {
                fresh,
                connections,
                rows,
            } => {
                let state = match (journal, fresh) {
                    ("wal", true) => " fresh",
                    ("wal", false) => " steady",
                    _ => "",
                };
                let what = format!("{state} {rows}-row {connections}-conn");
                let contenders: &[_] = match (journal, synchronous) {
                    ("wal", "full") if connections > 1 => {
                        &[Contender::Logforce, Contender::Grouped]
                    }
                    ("wal", "normal") => &[Contender::Logforce, Contender::Bounded],
                    _ => &[Contender::Logforce],
                };
                (what, contenders)
            }
            Task::Points => (" point reads".to_owned(), &[Contender::Logforce]),
            Task::Scan => (" scan".to_owned(), &[Contender::Logforce]),
            Task::Bulk => (" bulk load".to_owned(), &[Contender::Logforce]),
            Task::Checkpoint => (" checkpoint".to_owned(), &[Contender::Logforce]),
            Task::Short => (" open commit close".to_owned(), &[Contender::Logforce]),
        };
        Case {
            name: format!("{journal} {synchronous}{what}"),
            task,
            journal,
            synchronous,
            contenders,
        }
    }

    /// Returns the ratio to stock that a contender has to reach on a filesystem.
    pub fn target(&self, filesystem: &str) -> f64 {
        let is_durable = matches!(self.task, Task::Commits { .. }) && self.synchronous == "full";
        match (is_durable, filesystem, self.journal) {
            (true, "ext4", _) => 2.0,
            (true, "none", "wal") => 1.7,
            (true, "none", _) => 1.4,
            _ => 0.97,
        }
    }
}

/// Returns all cases, in the order of the table.
pub fn all() -> Vec<Case> {
    let shapes = [(1, 1), (20, 1), (1, 8), (20, 8)];
    let mut cases = Vec::new();
    let mut commits = |fresh, journal, synchronous, shapes: &[(u32, u32)]| {
        for &(rows, connections) in shapes {
            let task = Task::Commits {
                fresh,
                connections,
                rows,
            };
            cases.push(Case::new(task, journal, synchronous));
        }
    };
    for synchronous in ["full", "normal"] {
        for fresh in [true, false] {
            commits(fresh, "wal", synchronous, &shapes);
        }
    }
    for journal in ["delete", "truncate", "persist"] {
        commits(false, journal, "full", &shapes);
    }
    for journal in ["wal", "delete", "memory"] {
        commits(false, journal, "off", &shapes[..1]);
    }
    for journal in ["wal", "delete"] {
        for task in [Task::Points, Task::Scan, Task::Bulk, Task::Short] {
            cases.push(Case::new(task, journal, "full"));
        }
    }
    cases.push(Case::new(Task::Checkpoint, "wal", "full"));
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_there_once_and_every_setting_has_its_target() {
        let cases = all();
        let mut names: Vec<&str> = cases.iter().map(|c| c.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), cases.len());
        let target = |name: &str, filesystem| {
            let case = cases.iter().find(|c| c.name == name);
            case.unwrap().target(filesystem)
        };
        let wal = "wal full steady 1-row 1-conn";
        let targets = ["none", "ext4", "xfs"].map(|f| target(wal, f));
        assert_eq!(targets, [1.7, 2.0, 0.97]);
        assert_eq!(target("delete full 20-row 8-conn", "none"), 1.4);
        assert_eq!(target("delete off 1-row 1-conn", "none"), 0.97);
        assert_eq!(target("wal full checkpoint", "ext4"), 0.97);
    }
}
