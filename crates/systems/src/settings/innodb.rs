//! MySQL and MariaDB with InnoDB.
//!
//! Read for MariaDB in mariadb-corporation/mariadb-docs (system variables, flush method, group commit) and in
//! `mariadbd --help --verbose` of version 10.11. Read for MySQL in its manual's page on the doublewrite
//! buffer, in `sql/sys_vars.cc` and `srv0srv.h`, and in copies of its pages on InnoDB's parameters.

use super::*;

/// Words for the loss by a log that is forced once a second.
const A_SECOND: &str = "the commits of about the last second";
/// Words for a page that was half written.
const TORN: &str = "a page that was half written cannot be restored";
const TORN_AND_NOT_SYNCED: &str =
    "a checkpoint may count pages as written that are still in the device's cache";

const HAS_BINLOG: Condition = Condition {
    setting: "log_bin",
    is: Matches::On,
};

const AT_COMMIT: Value = Value {
    text: "1",
    matches: Matches::Number(1, 1),
    cost: Cost::Forces(1),
    ..VALUE
};

const ONCE_A_SECOND: Value = Value {
    text: "2",
    matches: Matches::Number(2, 2),
    promise: Promise::loses(Guarantee::ProcessCrash, A_SECOND),
    ..VALUE
};

const NOT_AT_COMMIT: Value = Value {
    text: "0",
    matches: Matches::Number(0, 0),
    promise: Promise::loses(Guarantee::Nothing, A_SECOND),
    is_advised: false,
    ..VALUE
};

const BINLOG_UNFORCED: Value = Value {
    text: "0",
    matches: Matches::Number(0, 0),
    promise: Promise::loses(
        Guarantee::ProcessCrash,
        "the commits that the system has not written back from the binary log: recovery rolls them back",
    ),
    ..VALUE
};

const BINLOG_FORCED: Value = Value {
    text: "1",
    matches: Matches::Number(1, 1),
    cost: Cost::SecondLog,
    ..VALUE
};

const BINLOG_SELDOM: Value = Value {
    text: "100",
    matches: Matches::Number(2, u32::MAX as u64),
    promise: Promise::loses(
        Guarantee::ProcessCrash,
        "up to that number of commit groups: recovery rolls them back",
    ),
    is_advised: false,
    ..VALUE
};

const TWICE: Value = Value {
    text: "ON",
    matches: Matches::Words(&["on", "1", "true", "detect_and_recover"]),
    cost: Cost::Work("each page is written twice, in the background"),
    ..VALUE
};

const ONCE: Value = Value {
    text: "OFF",
    matches: Matches::Off,
    promise: Promise::damaging(TORN),
    page: Some(16384),
    is_advised: false,
    ..VALUE
};

const DIRECT: Value = Value {
    text: "O_DIRECT",
    matches: Matches::Words(&["o_direct", "4"]),
    is_advised: false,
    ..VALUE
};

const BUFFERED: Value = Value {
    text: "fsync",
    matches: Matches::Words(&["fsync", "0", "normal", "unbuffered", "async_unbuffered"]),
    call: Some(Call::Fsync),
    is_advised: false,
    ..VALUE
};

const THROUGH: Value = Value {
    text: "O_DSYNC",
    matches: Matches::Words(&["o_dsync", "1"]),
    call: Some(Call::Dsync),
    is_advised: false,
    ..VALUE
};

const UNSYNCED: Value = Value {
    text: "O_DIRECT_NO_FSYNC",
    matches: Matches::Words(&["o_direct_no_fsync", "5"]),
    promise: Promise {
        beyond: Beyond::Damages(TORN_AND_NOT_SYNCED),
        ..Promise::POWER_LOSS
    },
    call: Some(Call::Direct),
    is_advised: false,
    ..VALUE
};

const FOR_TESTS: Value = Value {
    text: "nosync",
    matches: Matches::Words(&["nosync", "littlesync", "2", "3"]),
    promise: Promise::damaging("data files are not forced, or not always"),
    is_advised: false,
    ..VALUE
};

const MARIADB_VARIABLES: &str =
    "https://mariadb.com/docs/server/server-usage/storage-engines/innodb/innodb-system-variables";

const DOUBLEWRITE_PAGE: &str =
    "https://dev.mysql.com/doc/refman/8.4/en/innodb-doublewrite-buffer.html";

const MYSQL_PARAMETERS: &str = "https://dev.mysql.com/doc/refman/8.4/en/innodb-parameters.html";

pub(super) const MYSQL: SystemSettings = SystemSettings {
    system: System::Mysql,
    settings: &[
        Setting {
            name: "innodb_flush_log_at_trx_commit",
            line: "innodb_flush_log_at_trx_commit = {}",
            values: &[ONCE_A_SECOND, AT_COMMIT, NOT_AT_COMMIT],
            default: |_| "1",
            manual: MYSQL_PARAMETERS,
            ..SETTING
        },
        Setting {
            name: "sync_binlog",
            line: "sync_binlog = {}",
            values: &[BINLOG_UNFORCED, BINLOG_FORCED, BINLOG_SELDOM],
            default: |_| "1",
            manual: "https://dev.mysql.com/doc/refman/8.4/en/replication-options-binary-log.html",
            applies: Some(HAS_BINLOG),
            ..SETTING
        },
        Setting {
            name: "innodb_doublewrite",
            line: "innodb_doublewrite = {}",
            values: &[
                TWICE,
                Value {
                    text: "DETECT_ONLY",
                    matches: Matches::Words(&["detect_only"]),
                    promise: Promise::damaging(
                        "a page that was half written is found, not restored",
                    ),
                    page: Some(16384),
                    is_advised: false,
                    ..VALUE
                },
                ONCE,
            ],
            default: |_| "ON",
            manual: DOUBLEWRITE_PAGE,
            ..SETTING
        },
        Setting {
            name: "innodb_flush_method",
            line: "innodb_flush_method = {}",
            // The default, which differs by version, promises what O_DIRECT does. So no value is advised.
            values: &[
                Value {
                    is_advised: false,
                    ..VALUE
                },
                DIRECT,
                BUFFERED,
                THROUGH,
                UNSYNCED,
                FOR_TESTS,
            ],
            manual: DOUBLEWRITE_PAGE,
            platforms: &[Platform::Linux],
            ..SETTING
        },
    ],
    also_read: &[("log_bin", "ON"), ("innodb_page_size", "16384")],
    ..SERVER
};

pub(super) const MARIADB: SystemSettings = SystemSettings {
    system: System::Mariadb,
    settings: &[
        Setting {
            name: "innodb_flush_log_at_trx_commit",
            line: "innodb_flush_log_at_trx_commit = {}",
            values: &[
                ONCE_A_SECOND,
                AT_COMMIT,
                Value {
                    text: "3",
                    matches: Matches::Number(3, 3),
                    cost: Cost::Forces(2),
                    is_advised: false,
                    ..VALUE
                },
                NOT_AT_COMMIT,
            ],
            default: |_| "1",
            manual: MARIADB_VARIABLES,
            ..SETTING
        },
        Setting {
            name: "sync_binlog",
            line: "sync_binlog = {}",
            values: &[
                Value {
                    // With 3 a commit is durable in InnoDB. The binary log, and so a replica, may lack it.
                    unless: Some((
                        Condition {
                            setting: "innodb_flush_log_at_trx_commit",
                            is: Matches::Number(3, 3),
                        },
                        Promise::POWER_LOSS,
                    )),
                    ..BINLOG_UNFORCED
                },
                BINLOG_FORCED,
                BINLOG_SELDOM,
            ],
            default: |_| "0",
            manual: "https://mariadb.com/docs/server/ha-and-performance/standard-replication/replication-and-binary-log-system-variables#sync_binlog",
            applies: Some(HAS_BINLOG),
            ..SETTING
        },
        Setting {
            name: "innodb_doublewrite",
            line: "innodb_doublewrite = {}",
            values: &[
                TWICE,
                Value {
                    text: "fast",
                    matches: Matches::Words(&["fast"]),
                    promise: Promise {
                        doubt: "safe only if the doublewrite buffer and all data files are on one filesystem",
                        ..Promise::POWER_LOSS
                    },
                    is_advised: false,
                    ..VALUE
                },
                ONCE,
            ],
            default: |_| "ON",
            manual: MARIADB_VARIABLES,
            ..SETTING
        },
        Setting {
            name: "innodb_flush_method",
            line: "innodb_flush_method = {}",
            // Deprecated since 11.0, so no value is advised.
            values: &[DIRECT, BUFFERED, THROUGH, UNSYNCED, FOR_TESTS],
            default: |_| "O_DIRECT",
            manual: "https://mariadb.com/docs/server/server-usage/storage-engines/innodb/innodb-flush-method",
            platforms: &[Platform::Linux],
            ..SETTING
        },
        Setting {
            name: "debug_no_sync",
            line: "debug_no_sync = {}",
            values: &[
                Value {
                    text: "OFF",
                    matches: Matches::Off,
                    is_advised: false,
                    ..VALUE
                },
                Value {
                    text: "ON",
                    matches: Matches::On,
                    promise: Promise::damaging("no file is forced at all"),
                    is_advised: false,
                    ..VALUE
                },
            ],
            default: |_| "OFF",
            manual: "https://mariadb.com/docs/server/server-usage/storage-engines/innodb/innodb-flush-method",
            ..SETTING
        },
    ],
    also_read: &[("log_bin", "OFF"), ("innodb_page_size", "16384")],
    ..SERVER
};

const SERVER: SystemSettings = SystemSettings {
    directories: &[
        Directory {
            names: &["datadir"],
            ..NEEDED
        },
        Directory {
            names: &["innodb_log_group_home_dir"],
            ..OPTIONAL
        },
        Directory {
            names: &["log_bin_basename"],
            is_file: true,
            ..OPTIONAL
        },
        Directory {
            names: &["innodb_data_home_dir"],
            ..OPTIONAL
        },
        Directory {
            names: &["innodb_undo_directory"],
            ..OPTIONAL
        },
    ],
    are_below_first: true,
    snippet: Snippet {
        file: "my.cnf",
        before: &["[mysqld]"],
        ..HASH
    },
    unseen: &[
        "Tables of other engines than InnoDB (MyISAM, Aria, MEMORY) do not follow these settings.",
    ],
    ..SYSTEM
};
