//! ZooKeeper.
//!
//! Read in apache/zookeeper: the page of configuration parameters, `FileTxnLog.java`, `QuorumPeerConfig.java`.

use super::*;

pub(super) const SETTINGS: SystemSettings = SystemSettings {
    system: System::Zookeeper,
    settings: &[Setting {
        name: "forceSync",
        line: "forceSync={}",
        values: &[
            Value {
                text: "yes",
                // The server compares with "no", letter for letter; any other text means yes.
                matches: Matches::Except("no"),
                cost: Cost::Forces(1),
                ..VALUE
            },
            Value {
                text: "no",
                matches: Matches::Exactly("no"),
                promise: Promise::damaging(
                    "the server may lack updates that it has acknowledged, on which the ensemble relies",
                ),
                is_advised: false,
                ..VALUE
            },
        ],
        default: |_| "yes",
        manual: "https://zookeeper.apache.org/doc/current/zookeeperAdmin.html#Unsafe+Options",
        ..SETTING
    }],
    directories: &[
        Directory {
            names: &["dataDir"],
            ..NEEDED
        },
        Directory {
            names: &["dataLogDir"],
            ..OPTIONAL
        },
    ],
    snippet: Snippet {
        file: "zoo.cfg",
        ..HASH
    },
    unseen: &[
        "The Java property -Dzookeeper.forceSync of the command line counts too; it is not in the file.",
    ],
    ..SYSTEM
};
