//! Kafka.
//!
//! Read in apache/kafka: `docs/ops.html`, `TopicConfig.java`, `ServerLogConfigs.java`, `UnifiedLog.scala`.

use super::*;

pub(super) const SETTINGS: SystemSettings = SystemSettings {
    system: System::Kafka,
    settings: &[Setting {
        name: "log.flush.interval.messages",
        line: "log.flush.interval.messages={}",
        values: &[
            Value {
                promise: Promise::loses(
                    Guarantee::ProcessCrash,
                    "the messages that the system has not written back and that no replica has",
                ),
                ..VALUE
            },
            Value {
                text: "1",
                matches: Matches::Number(1, 1),
                cost: Cost::Forces(1),
                ..VALUE
            },
            Value {
                text: "1000",
                matches: Matches::Number(2, u64::MAX),
                promise: Promise::loses(
                    Guarantee::ProcessCrash,
                    "up to that number of messages in each partition, and that no replica has",
                ),
                is_advised: false,
                ..VALUE
            },
        ],
        default: |_| "",
        manual: "https://kafka.apache.org/documentation/#brokerconfigs_log.flush.interval.messages",
        ..SETTING
    }],
    directories: &[
        Directory {
            names: &["log.dirs", "log.dir"],
            ..NEEDED
        },
        Directory {
            names: &["metadata.log.dir"],
            ..OPTIONAL
        },
    ],
    snippet: Snippet {
        file: "server.properties",
        ..HASH
    },
    unseen: &[
        "Kafka's manual recommends to leave this unset and to rely on replicas on several machines: \
         https://kafka.apache.org/documentation/#appvsosflush. Set it if all of them can lose power together.",
        "Producers decide by acks what an acknowledgement means. A topic can override the interval by \
         flush.messages.",
    ],
    ..SYSTEM
};
