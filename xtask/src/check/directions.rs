//! Rule: the allowed dependencies between the crates.

use super::Violation;
use crate::workspace::Workspace;

/// Crates of the workspace that one crate may use.
#[derive(Debug)]
pub struct DependencyRule {
    /// Name of the crate.
    pub name: &'static str,
    /// Crates that it may use, also in its tests.
    pub may_use: &'static [&'static str],
    /// Reason for this choice.
    pub why: &'static str,
}

/// Crate that the tests of every crate may use in addition.
const TESTKIT: &str = "logforce-testkit";

/// Allowed dependencies; they are defined nowhere else. A crate stands below all that it may use, so
/// there can be no cycle.
pub const TABLE: &[DependencyRule] = &[
    DependencyRule {
        name: "logforce-format",
        may_use: &[],
        why: "it handles bytes without I/O, so that it can be tested and fuzzed as a pure function",
    },
    DependencyRule {
        name: "logforce-device",
        may_use: &[],
        why: "the contract knows neither an operating system nor a log, so it has no LSN",
    },
    DependencyRule {
        name: "logforce-device-os",
        may_use: &["logforce-device"],
        why: "it implements the contract and knows nothing of logs",
    },
    DependencyRule {
        name: "logforce-testkit",
        may_use: &["logforce-device"],
        why: "the simulated disk implements the same contract; it must not know the log that it tests",
    },
    DependencyRule {
        name: "logforce-commit",
        may_use: &["logforce-device"],
        why: "the log and durable files share it, and a file has no format, so it knows none",
    },
    DependencyRule {
        name: "logforce-core",
        may_use: &["logforce-commit", "logforce-format", "logforce-device"],
        why: "the log runs on any device, simulated or real, so it depends on none",
    },
    DependencyRule {
        name: "logforce-pages",
        may_use: &[
            "logforce-commit",
            "logforce-core",
            "logforce-device",
            "logforce-format",
        ],
        why: "the page file uses the log and runs on any device, simulated or real, so it depends on none",
    },
    DependencyRule {
        name: "logforce-sim",
        may_use: &[
            "logforce-commit",
            "logforce-core",
            "logforce-format",
            "logforce-device",
            "logforce-pages",
            "logforce-testkit",
        ],
        why: "it runs the log and the page file on the simulated disk, and needs the format to damage their \
                      bytes; no crate may use it",
    },
    DependencyRule {
        name: "logforce-calibrate",
        may_use: &["logforce-device"],
        why: "it measures any device through the contract, and knows nothing of logs",
    },
    DependencyRule {
        name: "logforce",
        may_use: &[
            "logforce-commit",
            "logforce-core",
            "logforce-pages",
            "logforce-calibrate",
            "logforce-device",
            "logforce-device-os",
        ],
        why: "the public crate connects the log to the operating system; only core knows the bytes",
    },
    DependencyRule {
        name: "logforce-crashtest",
        may_use: &["logforce-device-os"],
        why: "it tests any program and knows nothing of logs; some system calls need `unsafe`",
    },
    DependencyRule {
        name: "logforce-sqlite",
        may_use: &["logforce", "logforce-device", "logforce-device-os"],
        why: "SQLite writes, and durable files sync; known bugs and counters of devices come from below",
    },
    DependencyRule {
        name: "logforce-sqlite-extension",
        may_use: &["logforce-sqlite"],
        why: "it only exports the entry points by which SQLite loads the VFS",
    },
    DependencyRule {
        name: "logforce-powercut",
        may_use: &[
            "logforce",
            "logforce-crashtest",
            "logforce-device",
            "logforce-device-os",
            "logforce-sqlite",
            "logforce-testkit",
        ],
        why: "it runs the shipped log on real filesystems, on a layer that drops forces; no crate \
                      may use it",
    },
    DependencyRule {
        name: "logforce-terminal",
        may_use: &["logforce-device"],
        why: "it formats numbers and tables and parses arguments, and knows neither logs nor measuring",
    },
    DependencyRule {
        name: "logforce-systems",
        may_use: &["logforce-device"],
        why: "it is data about other systems in the terms of the contract; it measures and reads nothing",
    },
    DependencyRule {
        name: "logforce-measure",
        may_use: &[
            "logforce",
            "logforce-device",
            "logforce-systems",
            "logforce-terminal",
        ],
        why: "it measures the log as users get it, and the raw device; its caller provides the device",
    },
    DependencyRule {
        name: "logforce-report",
        may_use: &[
            "logforce-crashtest",
            "logforce-measure",
            "logforce-device",
            "logforce-terminal",
        ],
        why: "it draws the results of scenarios and of crash tests; it measures and tests nothing",
    },
    DependencyRule {
        name: "logforce-databases",
        may_use: &[
            "logforce-measure",
            "logforce-device",
            "logforce-device-os",
            "logforce-terminal",
        ],
        why: "it adapts databases to the interface of the measuring crate; only its tests use the \
                      operating system",
    },
    DependencyRule {
        name: "logforce-witness",
        may_use: &["logforce", "logforce-device"],
        why: "it runs the shipped log and examines it after a power cut; its caller provides the \
                      device",
    },
    DependencyRule {
        name: "logforce-archive-testserver",
        may_use: &[],
        why: "it speaks the protocol of object storage to any client, and knows neither archives nor logs",
    },
    DependencyRule {
        name: "logforce-archive",
        may_use: &["logforce", "logforce-archive-testserver"],
        why: "it copies the log through what the library offers to every replica; object storage is its own \
                      subject; only its tests use the server",
    },
    DependencyRule {
        name: "logforce-cli",
        may_use: &[
            "logforce-crashtest",
            "logforce-report",
            "logforce-witness",
            "logforce-archive",
            "logforce-archive-testserver",
            "logforce-databases",
            "logforce-measure",
            "logforce-systems",
            "logforce-terminal",
            "logforce",
            "logforce-device",
            "logforce-device-os",
        ],
        why: "it reads flags, passes the operating system to the measuring crate, and prints",
    },
    DependencyRule {
        name: "logforce-btree",
        may_use: &["logforce"],
        why: "an example: it uses only what users can use",
    },
    DependencyRule {
        name: "logforce-openraft",
        may_use: &["logforce"],
        why: "it keeps a Raft log through what the library offers to every user",
    },
    DependencyRule {
        name: "logforce-benches",
        may_use: &[
            "logforce-btree",
            "logforce-measure",
            "logforce-openraft",
            "logforce-sqlite",
            "logforce-terminal",
            "logforce",
            "logforce-device",
            "logforce-device-os",
            "logforce-testkit",
        ],
        why: "it compares the log with others, and makes filesystems to count flushes; no crate may use \
                      it, because it depends on the rivals",
    },
    DependencyRule {
        name: "xtask",
        may_use: &[],
        why: "it must build and report when no other crate compiles",
    },
];

/// Compares the manifests with the table.
pub fn check(workspace: &Workspace, table: &[DependencyRule]) -> Vec<Violation> {
    let is_ours = |name: &str| workspace.crates.iter().any(|c| c.name == name);
    let mut found = Vec::new();
    for row in table.iter().filter(|r| !is_ours(r.name)) {
        found.push(Violation::new(
            row.name,
            "is in the table of directions but not in the workspace",
            "remove its row from xtask/src/check/directions.rs",
        ));
    }
    for krate in &workspace.crates {
        let Some(row) = table.iter().find(|r| r.name == krate.name) else {
            found.push(Violation::new(
                &krate.name,
                "is not in the table of directions",
                "add a row with the reason in xtask/src/check/directions.rs",
            ));
            continue;
        };
        for used in krate.dependencies.iter().filter(|d| is_ours(&d.name)) {
            let fits = row.may_use.contains(&used.name.as_str());
            let for_tests = used.dev && used.name == TESTKIT && krate.name != TESTKIT;
            if !fits && !for_tests {
                let kind = if used.dev { " in its tests" } else { "" };
                let allowed = match row.may_use {
                    [] => "none of the others".to_owned(),
                    some => some.join(", "),
                };
                found.push(Violation::new(
                    &krate.name,
                    format!("uses {}{kind}, against the direction", used.name),
                    format!("it may use {allowed}: {}", row.why),
                ));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{Crate, Dependency};

    fn workspace(crates: &[(&str, &[(&str, bool)])]) -> Workspace {
        let krate = |&(name, uses): &(&str, &[(&str, bool)])| Crate {
            is_published: true,
            name: name.to_owned(),
            dir: "/w".into(),
            dependencies: uses
                .iter()
                .map(|&(name, dev)| Dependency {
                    name: name.to_owned(),
                    dev,
                })
                .collect(),
        };
        Workspace {
            root: "/w".into(),
            target: "/t".into(),
            crates: crates.iter().map(krate).collect(),
        }
    }

    const SMALL: &[DependencyRule] = &[
        DependencyRule {
            name: "low",
            may_use: &[],
            why: "it is the lowest",
        },
        DependencyRule {
            name: TESTKIT,
            may_use: &["low"],
            why: "for tests",
        },
        DependencyRule {
            name: "high",
            may_use: &["low"],
            why: "above low",
        },
    ];

    fn said(crates: &[(&str, &[(&str, bool)])]) -> String {
        let found = check(&workspace(crates), SMALL);
        found.iter().map(|v| format!("{v}\n")).collect()
    }

    #[test]
    fn the_allowed_directions_pass() {
        let crates: &[(&str, &[(&str, bool)])] = &[
            ("low", &[("libc", false), (TESTKIT, true)]),
            (TESTKIT, &[("low", false)]),
            ("high", &[("low", false), (TESTKIT, true), ("low", true)]),
        ];
        assert_eq!(said(crates), "");
    }

    #[test]
    fn each_wrong_direction_is_found() {
        let low: (&str, &[_]) = ("low", &[]);
        let kit: (&str, &[_]) = (TESTKIT, &[]);
        let high: (&str, &[_]) = ("high", &[]);
        for (planted, expected) in [
            (
                [("low", &[("high", false)][..]), kit, high],
                "low: uses high",
            ),
            (
                [("low", &[("high", true)][..]), kit, high],
                "high in its tests",
            ),
            (
                [low, kit, ("high", &[(TESTKIT, false)][..])],
                "high: uses logforce-testkit",
            ),
            (
                [low, (TESTKIT, &[("high", true)][..]), high],
                "logforce-testkit: uses high",
            ),
        ] {
            let text = said(&planted);
            assert!(text.contains(expected), "{text}");
            assert_eq!(text.lines().count(), 1, "{text}");
        }
    }

    #[test]
    fn a_crate_without_a_row_and_a_row_without_a_crate_are_found() {
        let text = said(&[("low", &[]), (TESTKIT, &[]), ("new", &[])]);
        assert!(text.contains("new: is not in the table"), "{text}");
        assert!(text.contains("high: is in the table"), "{text}");
    }

    #[test]
    fn the_table_runs_one_way() {
        for (i, row) in TABLE.iter().enumerate() {
            assert!(!row.why.is_empty());
            for used in row.may_use {
                assert!(
                    TABLE[..i].iter().any(|r| r.name == *used),
                    "{used} stands below {}",
                    row.name
                );
            }
        }
    }
}
