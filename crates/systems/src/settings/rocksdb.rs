//! RocksDB.
//!
//! Read in `include/rocksdb/options.h` of facebook/rocksdb.

use super::*;

const OPTIONS: &str = "https://github.com/facebook/rocksdb/blob/main/include/rocksdb/options.h";

pub(super) const SETTINGS: SystemSettings = SystemSettings {
    system: System::Rocksdb,
    settings: &[
        Setting {
            name: "manual_wal_flush",
            line: "options.manual_wal_flush = {};",
            values: &[
                Value {
                    text: "false",
                    matches: Matches::Off,
                    ..VALUE
                },
                Value {
                    text: "true",
                    matches: Matches::On,
                    promise: Promise::loses(
                        Guarantee::Nothing,
                        "the writes since the program called FlushWAL",
                    ),
                    is_advised: false,
                    ..VALUE
                },
            ],
            default: |_| "false",
            manual: OPTIONS,
            ..SETTING
        },
        Setting {
            name: "WriteOptions.disableWAL",
            line: "write_options.disableWAL = {};",
            values: &[
                Value {
                    text: "false",
                    matches: Matches::Off,
                    ..VALUE
                },
                Value {
                    text: "true",
                    matches: Matches::On,
                    promise: Promise::loses(
                        Guarantee::Nothing,
                        "the writes that are still in a memtable",
                    ),
                    is_advised: false,
                    ..VALUE
                },
            ],
            default: |_| "false",
            manual: OPTIONS,
            made_by: MadeBy::Program,
            ..SETTING
        },
        Setting {
            name: "WriteOptions.sync",
            line: "write_options.sync = {};",
            values: &[
                Value {
                    text: "false",
                    matches: Matches::Off,
                    promise: Promise::loses(
                        Guarantee::ProcessCrash,
                        "the writes that the system has not written back",
                    ),
                    ..VALUE
                },
                Value {
                    text: "true",
                    matches: Matches::On,
                    cost: Cost::Forces(1),
                    ..VALUE
                },
            ],
            default: |_| "false",
            manual: OPTIONS,
            made_by: MadeBy::Program,
            ..SETTING
        },
    ],
    snippet: Snippet {
        file: "the program, in C++",
        comment: "//",
        before: &[
            "rocksdb::Options options;",
            "rocksdb::WriteOptions write_options;",
        ],
        after: &[],
    },
    unseen: &[
        "The program passes WriteOptions with each write. The OPTIONS file does not contain them.",
    ],
    ..SYSTEM
};
