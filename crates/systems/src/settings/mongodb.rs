//! MongoDB.
//!
//! Read in mongodb/docs: the pages on write concern.

use super::*;

const WRITE_CONCERN: &str = "https://www.mongodb.com/docs/manual/reference/write-concern/";

/// Words for the loss by an acknowledgement from memory.
const FROM_MEMORY: &str = "the writes that are not in the journal on the disk yet";

pub(super) const SETTINGS: SystemSettings = SystemSettings {
    system: System::Mongodb,
    settings: &[
        Setting {
            name: "writeConcernMajorityJournalDefault",
            line: "cfg = rs.conf(); cfg.writeConcernMajorityJournalDefault = {}; rs.reconfig(cfg)",
            values: &[
                Value {
                    text: "true",
                    matches: Matches::On,
                    ..VALUE
                },
                Value {
                    text: "false",
                    matches: Matches::Off,
                    promise: Promise::loses(Guarantee::Nothing, FROM_MEMORY),
                    is_advised: false,
                    ..VALUE
                },
            ],
            default: |_| "true",
            manual: WRITE_CONCERN,
            made_by: MadeBy::Program,
            ..SETTING
        },
        Setting {
            name: "defaultWriteConcern",
            line: "db.adminCommand({ setDefaultRWConcern: 1, defaultWriteConcern: {} })",
            values: &[
                Value {
                    text: "{ w: \"majority\" }",
                    matches: Matches::Words(&["{ w: \"majority\" }", "majority"]),
                    cost: Cost::Forces(1),
                    ..VALUE
                },
                Value {
                    text: "{ w: 1 }",
                    matches: Matches::Words(&["{ w: 1 }", "1"]),
                    promise: Promise::loses(Guarantee::Nothing, FROM_MEMORY),
                    is_advised: false,
                    ..VALUE
                },
            ],
            default: |_| "{ w: \"majority\" }",
            manual: WRITE_CONCERN,
            made_by: MadeBy::Program,
            ..SETTING
        },
    ],
    directories: &[Directory {
        names: &["storage.dbPath"],
        ..NEEDED
    }],
    snippet: Snippet {
        file: "mongosh, on the primary of a replica set",
        comment: "//",
        before: &[],
        after: &[],
    },
    unseen: &[
        "A standalone server, and a write that names another concern, needs { w: 1, j: true } or \
         { w: \"majority\" }. The server's file contains no write concern.",
    ],
    ..SYSTEM
};
