//! etcd.
//!
//! Read in the configuration page of etcd-io/website (3.5) and in etcd-io/etcd pull request 12751.

use super::*;

pub(super) const SETTINGS: SystemSettings = SystemSettings {
    system: System::Etcd,
    settings: &[Setting {
        name: "unsafe-no-fsync",
        line: "unsafe-no-fsync: {}",
        values: &[
            Value {
                text: "false",
                matches: Matches::Off,
                cost: Cost::Forces(1),
                ..VALUE
            },
            Value {
                text: "true",
                matches: Matches::On,
                promise: Promise::damaging(
                    "the member may lack entries that it has acknowledged, on which the cluster relies",
                ),
                is_advised: false,
                ..VALUE
            },
        ],
        default: |_| "false",
        manual: "https://etcd.io/docs/v3.5/op-guide/configuration/#unsafe-features",
        ..SETTING
    }],
    directories: &[
        Directory {
            names: &["data-dir"],
            below: "member/wal",
            ..NEEDED
        },
        Directory {
            names: &["wal-dir"],
            ..OPTIONAL
        },
    ],
    snippet: Snippet {
        file: "etcd.conf.yml",
        ..HASH
    },
    unseen: &[
        "etcd has no other setting for durability: it forces its log before it acknowledges.",
    ],
    ..SYSTEM
};
