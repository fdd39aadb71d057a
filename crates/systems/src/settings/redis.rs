//! Redis and Valkey.
//!
//! Read in `docs/management/persistence.md` of redis/redis-doc in `redis.conf`, and in `flushAppendOnlyFile` of
//! `aof.c`.

use super::*;

const PAGE: &str = "https://redis.io/docs/latest/operate/oss_and_stack/management/persistence/";

const HAS_AOF: Condition = Condition {
    setting: "appendonly",
    is: Matches::On,
};

pub(super) const SETTINGS: SystemSettings = SystemSettings {
    system: System::Redis,
    settings: &[
        Setting {
            name: "appendonly",
            line: "appendonly {}",
            values: &[
                Value {
                    text: "yes",
                    matches: Matches::On,
                    ..VALUE
                },
                Value {
                    text: "no",
                    matches: Matches::Off,
                    promise: Promise::loses(
                        Guarantee::Nothing,
                        "all writes since the last snapshot, or everything if none are made",
                    ),
                    is_advised: false,
                    ..VALUE
                },
            ],
            default: |_| "no",
            manual: PAGE,
            ..SETTING
        },
        Setting {
            name: "appendfsync",
            line: "appendfsync {}",
            values: &[
                Value {
                    text: "always",
                    matches: Matches::Words(&["always"]),
                    cost: Cost::Forces(1),
                    ..VALUE
                },
                Value {
                    text: "everysec",
                    matches: Matches::Words(&["everysec"]),
                    // While a force is under way, the server keeps writes in its own memory.
                    promise: Promise::loses(
                        Guarantee::Nothing,
                        "the writes of about the last second, or of two while a force is slow; of the \
                         process alone, those since the force began",
                    ),
                    is_advised: false,
                    ..VALUE
                },
                Value {
                    text: "no",
                    matches: Matches::Off,
                    promise: Promise::loses(
                        Guarantee::ProcessCrash,
                        "the writes that the system has not written back (30 s by Linux's default)",
                    ),
                    is_advised: false,
                    ..VALUE
                },
            ],
            default: |_| "everysec",
            manual: PAGE,
            applies: Some(HAS_AOF),
            ..SETTING
        },
        Setting {
            name: "no-appendfsync-on-rewrite",
            line: "no-appendfsync-on-rewrite {}",
            values: &[
                Value {
                    text: "no",
                    matches: Matches::Off,
                    ..VALUE
                },
                Value {
                    text: "yes",
                    matches: Matches::On,
                    promise: Promise::loses(
                        Guarantee::ProcessCrash,
                        "the writes that the system has not written back (30 s), while the file is rewritten",
                    ),
                    is_advised: false,
                    ..VALUE
                },
            ],
            default: |_| "no",
            manual: "https://github.com/redis/redis/blob/unstable/redis.conf",
            applies: Some(HAS_AOF),
            ..SETTING
        },
    ],
    directories: &[Directory {
        names: &["dir"],
        ..NEEDED
    }],
    snippet: Snippet {
        file: "redis.conf",
        ..HASH
    },
    unseen: &[
        "Replication is asynchronous: a failover may lose writes that the old primary has on its disk.",
    ],
    ..SYSTEM
};
