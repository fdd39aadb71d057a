//! SQLite.
//!
//! Read in copies of the page on pragmas of sqlite.org.

use super::*;

const PRAGMAS: &str = "https://www.sqlite.org/pragma.html#pragma_synchronous";

const IS_WAL: Condition = Condition {
    setting: "journal_mode",
    is: Matches::Words(&["wal"]),
};

const ROLLBACK: Value = Value {
    is_advised: false,
    cost: Cost::Nothing,
    ..VALUE
};

pub(super) const SETTINGS: SystemSettings = SystemSettings {
    system: System::Sqlite,
    settings: &[
        Setting {
            name: "journal_mode",
            line: "PRAGMA journal_mode = {};",
            values: &[
                Value {
                    text: "WAL",
                    matches: Matches::Words(&["wal"]),
                    ..VALUE
                },
                Value {
                    text: "DELETE",
                    matches: Matches::Words(&["delete", "truncate", "persist"]),
                    ..ROLLBACK
                },
                Value {
                    text: "MEMORY",
                    matches: Matches::Words(&["memory"]),
                    promise: Promise {
                        survives: Guarantee::Nothing,
                        beyond: Beyond::Damages(
                            "a crash within a transaction damages the database",
                        ),
                        doubt: "",
                    },
                    ..ROLLBACK
                },
                Value {
                    text: "OFF",
                    matches: Matches::Off,
                    promise: Promise {
                        survives: Guarantee::Nothing,
                        beyond: Beyond::Damages(
                            "a crash within a transaction damages the database",
                        ),
                        doubt: "",
                    },
                    ..ROLLBACK
                },
            ],
            default: |_| "DELETE",
            manual: "https://www.sqlite.org/pragma.html#pragma_journal_mode",
            ..SETTING
        },
        Setting {
            name: "synchronous",
            line: "PRAGMA synchronous = {};",
            values: &[
                Value {
                    text: "NORMAL",
                    matches: Matches::Words(&["normal", "1"]),
                    promise: Promise::damaging(
                        "without WAL, a loss of power at the wrong moment may damage the database",
                    ),
                    unless: Some((
                        IS_WAL,
                        Promise::loses(
                            Guarantee::ProcessCrash,
                            "the commits since the last checkpoint that the system has not written back",
                        ),
                    )),
                    ..VALUE
                },
                Value {
                    text: "FULL",
                    matches: Matches::Words(&["full", "2"]),
                    promise: Promise::loses(
                        Guarantee::ProcessCrash,
                        "the last commit, because nothing forces the removal of its journal",
                    ),
                    unless: Some((IS_WAL, Promise::POWER_LOSS)),
                    cost: Cost::Forces(1),
                    ..VALUE
                },
                Value {
                    text: "EXTRA",
                    matches: Matches::Words(&["extra", "3"]),
                    cost: Cost::Forces(4),
                    ..VALUE
                },
                Value {
                    text: "OFF",
                    matches: Matches::Words(&["off", "0"]),
                    promise: Promise::damaging("nothing was forced in order"),
                    is_advised: false,
                    ..VALUE
                },
            ],
            default: |_| "FULL",
            manual: PRAGMAS,
            made_by: MadeBy::Program,
            ..SETTING
        },
        Setting {
            name: "fullfsync",
            line: "PRAGMA fullfsync = {};",
            values: &[
                Value {
                    text: "OFF",
                    matches: Matches::Off,
                    call: Some(Call::Fsync),
                    ..VALUE
                },
                Value {
                    text: "ON",
                    matches: Matches::On,
                    call: Some(Call::FullFsync),
                    ..VALUE
                },
            ],
            default: |_| "OFF",
            manual: "https://www.sqlite.org/pragma.html#pragma_fullfsync",
            made_by: MadeBy::Program,
            platforms: &[Platform::Macos],
            ..SETTING
        },
    ],
    snippet: Snippet {
        file: "each connection, before its first transaction",
        comment: "--",
        before: &[],
        after: &[],
    },
    unseen: &[
        "The file keeps journal_mode = WAL. Each connection sets the other pragmas for itself.",
    ],
    ..SYSTEM
};
