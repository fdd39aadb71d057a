//! Cassandra.
//!
//! Read in `conf/cassandra.yaml` of apache/cassandra.

use super::*;

pub(super) const SETTINGS: SystemSettings = SystemSettings {
    system: System::Cassandra,
    settings: &[Setting {
        name: "commitlog_sync",
        line: "commitlog_sync: {}",
        values: &[
            Value {
                text: "batch",
                matches: Matches::Words(&["batch"]),
                cost: Cost::Forces(1),
                ..VALUE
            },
            Value {
                text: "group",
                matches: Matches::Words(&["group"]),
                cost: Cost::Work(
                    "a write waits for up to commitlog_sync_group_window, then for the force",
                ),
                is_advised: false,
                ..VALUE
            },
            // The file does not say in which memory a write is when it is acknowledged.
            Value {
                text: "periodic",
                matches: Matches::Words(&["periodic"]),
                promise: Promise::loses(
                    Guarantee::Nothing,
                    "the writes of up to commitlog_sync_period (10 s by default) that no replica has",
                ),
                is_advised: false,
                ..VALUE
            },
        ],
        default: |_| "periodic",
        manual: "https://github.com/apache/cassandra/blob/trunk/conf/cassandra.yaml",
        ..SETTING
    }],
    directories: &[
        Directory {
            names: &["commitlog_directory"],
            ..NEEDED
        },
        Directory {
            names: &["data_file_directories"],
            ..NEEDED
        },
    ],
    snippet: Snippet {
        file: "cassandra.yaml",
        ..HASH
    },
    unseen: &[
        "The consistency level of a write decides how many replicas must answer before it is acknowledged.",
    ],
    ..SYSTEM
};
