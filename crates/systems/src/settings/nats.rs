//! NATS JetStream.
//!
//! Read in nats-io/nats.docs: the server's configuration, and "Syncing data to disk".

use super::*;

pub(super) const SETTINGS: SystemSettings = SystemSettings {
    system: System::Nats,
    settings: &[Setting {
        name: "jetstream.sync_interval",
        line: "  sync_interval: {}",
        values: &[
            Value {
                text: "2m",
                matches: Matches::Duration,
                promise: Promise::loses(
                    Guarantee::ProcessCrash,
                    "the messages of up to this interval (2 minutes by default); with replicas, those that \
                     fail together",
                ),
                ..VALUE
            },
            Value {
                text: "always",
                matches: Matches::Words(&["always"]),
                cost: Cost::Forces(1),
                ..VALUE
            },
        ],
        default: |_| "2m",
        manual: "https://docs.nats.io/nats-concepts/jetstream#persistent-and-consistent-distributed-storage",
        ..SETTING
    }],
    directories: &[Directory {
        names: &["jetstream.store_dir"],
        ..NEEDED
    }],
    snippet: Snippet {
        file: "nats-server.conf",
        before: &["jetstream {"],
        after: &["}"],
        ..HASH
    },
    unseen: &["Streams with memory storage survive nothing, whatever is set."],
    ..SYSTEM
};
