//! PostgreSQL.
//!
//! Read in `doc/src/sgml/config.sgml` of postgres/postgres, and in `postgresql.conf.sample` of version 15.

use super::*;

/// Condition under which anything is forced. A commit that `synchronous_commit = off` leaves in the memory of the
/// process is lost without it too.
const IS_FORCED: Condition = Condition {
    setting: "fsync",
    is: Matches::On,
};

pub(super) const SETTINGS: SystemSettings = SystemSettings {
    system: System::Postgresql,
    settings: &[
        Setting {
            name: "fsync",
            line: "fsync = {}",
            values: &[
                Value {
                    text: "on",
                    matches: Matches::On,
                    ..VALUE
                },
                Value {
                    text: "off",
                    matches: Matches::Off,
                    promise: Promise::damaging(
                        "the database may be beyond repair, because nothing was forced in order",
                    ),
                    is_advised: false,
                    ..VALUE
                },
            ],
            default: |_| "on",
            manual: "https://www.postgresql.org/docs/current/runtime-config-wal.html#GUC-FSYNC",
            ..SETTING
        },
        Setting {
            name: "full_page_writes",
            line: "full_page_writes = {}",
            values: &[
                Value {
                    text: "on",
                    matches: Matches::On,
                    cost: Cost::Work(
                        "the first change of a page after a checkpoint writes the page to the WAL",
                    ),
                    ..VALUE
                },
                // The server never asks the kernel to write a page whole (RWF_ATOMIC), so a device that
                // could do it does not help.
                Value {
                    text: "off",
                    matches: Matches::Off,
                    promise: Promise::damaging(
                        "a page that was half written cannot be restored: PostgreSQL does not ask for \
                         atomic writes, even of a device that offers them",
                    ),
                    is_advised: false,
                    ..VALUE
                },
            ],
            default: |_| "on",
            manual: "https://www.postgresql.org/docs/current/runtime-config-wal.html#GUC-FULL-PAGE-WRITES",
            ..SETTING
        },
        Setting {
            name: "synchronous_commit",
            line: "synchronous_commit = {}",
            values: &[
                Value {
                    text: "on",
                    matches: Matches::On,
                    cost: Cost::Forces(1),
                    ..VALUE
                },
                Value {
                    text: "local",
                    matches: Matches::Words(&["local", "remote_write", "remote_apply"]),
                    cost: Cost::Forces(1),
                    is_advised: false,
                    ..VALUE
                },
                Value {
                    text: "off",
                    matches: Matches::Off,
                    promise: Promise::loses(
                        Guarantee::Nothing,
                        "the commits of up to 3 × wal_writer_delay (600 ms by default)",
                    ),
                    is_advised: false,
                    ..VALUE
                },
            ],
            default: |_| "on",
            manual: "https://www.postgresql.org/docs/current/runtime-config-wal.html#GUC-SYNCHRONOUS-COMMIT",
            ..SETTING
        },
        Setting {
            name: "wal_sync_method",
            line: "wal_sync_method = {}",
            values: &[
                Value {
                    text: "fdatasync",
                    matches: Matches::Words(&["fdatasync"]),
                    platforms: &[Platform::Linux, Platform::Macos],
                    ..VALUE
                },
                Value {
                    text: "open_datasync",
                    matches: Matches::Words(&["open_datasync"]),
                    call: Some(Call::Dsync),
                    ..VALUE
                },
                Value {
                    text: "fsync",
                    matches: Matches::Words(&["fsync"]),
                    call: Some(Call::Fsync),
                    ..VALUE
                },
                Value {
                    text: "fsync_writethrough",
                    matches: Matches::Words(&["fsync_writethrough"]),
                    call: Some(Call::FullFsync),
                    platforms: &[Platform::Windows, Platform::Macos],
                    ..VALUE
                },
                Value {
                    text: "open_sync",
                    matches: Matches::Words(&["open_sync"]),
                    call: Some(Call::Dsync),
                    is_advised: false,
                    platforms: &[Platform::Linux, Platform::Macos],
                    ..VALUE
                },
            ],
            default: |platform| match platform {
                Platform::Linux => "fdatasync",
                _ => "open_datasync",
            },
            manual: "https://www.postgresql.org/docs/current/runtime-config-wal.html#GUC-WAL-SYNC-METHOD",
            applies: Some(IS_FORCED),
            ..SETTING
        },
        Setting {
            name: "data_sync_retry",
            line: "data_sync_retry = {}",
            values: &[
                Value {
                    text: "off",
                    matches: Matches::Off,
                    ..VALUE
                },
                Value {
                    text: "on",
                    matches: Matches::On,
                    promise: Promise::damaging(
                        "after a failed force the kernel may have dropped pages that the retry reports as \
                         written",
                    ),
                    is_advised: false,
                    ..VALUE
                },
            ],
            default: |_| "off",
            manual: "https://www.postgresql.org/docs/current/runtime-config-error-handling.html#GUC-DATA-SYNC-RETRY",
            ..SETTING
        },
    ],
    directories: &[Directory {
        names: &["data_directory"],
        below: "pg_wal",
        ..NEEDED
    }],
    snippet: Snippet {
        file: "postgresql.conf",
        ..HASH
    },
    unseen: &[
        "A session can set synchronous_commit for itself, and for single transactions.",
        "Tables that were created as UNLOGGED are emptied after a crash, whatever is set.",
    ],
    ..SYSTEM
};
