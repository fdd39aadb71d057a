//! Commits of other systems: the writes that make one durable, as the system's own code and manual
//! describe them, and the threshold that the system publishes.

use crate::System;
use logforce_device::{FileState, Method, Platform};
use std::fmt;
use std::time::Duration;

/// A commit of a system: its smallest durable write, unless the system publishes another size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit {
    /// Settings under which the system commits so, as they are written in its configuration.
    pub settings: &'static str,
    /// Writes of one commit, each made durable before the next begins.
    pub forces: &'static [Force],
    /// Threshold that the system publishes; `None` if it publishes none.
    pub threshold: Option<Threshold>,
    /// Remarks on the commit, in sentences, such as a published figure that decides nothing.
    pub remarks: &'static [&'static str],
    /// Addresses of the pages and files that describe the commit.
    pub sources: &'static [&'static str],
}

/// One write and the call that makes it durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Force {
    /// Name of the file in sentences, such as `WAL segment`.
    pub file: &'static str,
    /// Size of the write, bytes.
    pub bytes: u64,
    /// State of the file's blocks before the write.
    pub state: FileState,
    /// Size of the file after which the system begins another one, bytes.
    pub file_bytes: u64,
    /// Call on Linux. [`Force::method`] has the one of other platforms.
    pub call: Method,
}

/// Limit that a system publishes for its commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold {
    /// Latencies that must not exceed the limit.
    pub of: Part,
    /// Limit of the latency.
    pub limit: Duration,
    /// Effect of a commit above the limit, as a sentence without its end.
    pub effect: &'static str,
    /// Party that publishes it, such as `etcd's FAQ`.
    pub by: &'static str,
    /// Address of the page.
    pub address: &'static str,
}

/// Part of the commits that a threshold is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// 99 of 100 commits.
    P99,
    /// Every commit.
    All,
}

impl Part {
    /// Returns the name in sentences.
    pub fn words(self) -> &'static str {
        match self {
            Part::P99 => "p99",
            Part::All => "the longest commit",
        }
    }

    /// Returns the largest number of commits of `count` that may exceed the limit.
    pub fn may_exceed(self, count: u64) -> u64 {
        match self {
            Part::P99 => count / 100,
            Part::All => 0,
        }
    }
}

/// Writes the name used in reports.
impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Part::P99 => "p99",
            Part::All => "max",
        })
    }
}

impl Force {
    /// Returns the method on `platform`. Where it is not Linux, a call of the same strength takes the place
    /// of the one that the system makes there.
    pub fn method(&self, platform: Platform) -> Method {
        match (platform, self.call.plan().direct) {
            (Platform::Windows, false) => Method::Flush,
            (Platform::Windows, true) => Method::NoBufferingWriteThrough,
            (Platform::Macos, false) => Method::FullFsync,
            (Platform::Macos, true) => Method::NocacheFullFsync,
            _ => self.call,
        }
    }

    /// Returns the method for a filesystem without direct I/O.
    pub fn buffered(&self, platform: Platform) -> Method {
        let call = match self.call {
            Method::DirectFdatasync => Method::Fdatasync,
            call => call,
        };
        Force { call, ..*self }.method(platform)
    }

    /// Returns the command line by which `fio` makes `count` such writes in the present directory.
    pub fn fio(&self, system: System, count: u64) -> String {
        let call = match self.call {
            Method::Fsync => "--fsync=1",
            _ => "--fdatasync=1",
        };
        let state = match self.state {
            FileState::Growing => "--fallocate=none",
            FileState::Fallocated => "--fallocate=native",
            _ => "--overwrite=1",
        };
        let direct = if self.call.plan().direct {
            " --direct=1"
        } else {
            ""
        };
        format!(
            "fio --name={system} --ioengine=sync --rw=write --bs={} --size={} {call} {state}{direct}",
            self.bytes,
            self.bytes * count
        )
    }
}

/// Returns the commit of a system.
pub(crate) fn of(system: System) -> Option<&'static Commit> {
    Some(match system {
        System::Etcd => &ETCD,
        System::Postgresql => &POSTGRESQL,
        System::Mysql => &MYSQL,
        System::Mariadb => &MARIADB,
        System::Sqlite => &SQLITE,
        System::Kafka => &KAFKA,
        System::Redis => &REDIS,
        System::Nats => &NATS,
        System::Zookeeper => &ZOOKEEPER,
        System::Rocksdb => &ROCKSDB,
        System::Cassandra => &CASSANDRA,
        System::Mongodb => &MONGODB,
    })
}

const MIB: u64 = 1 << 20;

const ETCD: Commit = Commit {
    settings: "the defaults",
    forces: &[Force {
        file: "WAL segment",
        bytes: 2300,
        state: FileState::Fallocated,
        file_bytes: 64_000_000,
        call: Method::Fdatasync,
    }],
    threshold: Some(Threshold {
        of: Part::P99,
        limit: Duration::from_millis(10),
        effect: "heartbeats may come too late, and the cluster may elect a leader without need",
        by: "etcd's FAQ",
        address: "https://etcd.io/docs/v3.6/faq/",
    }),
    remarks: &[
        "2300 bytes a write is the size that IBM measured below Kubernetes and gave to fio.",
        "etcd's hardware page asks for 50 writes in sequence a second, and for 500 below a heavily loaded \
         cluster. That is a rate, a mean of 20 ms and of 2 ms a write, and decides nothing here.",
    ],
    sources: &[
        "https://www.ibm.com/cloud/blog/using-fio-to-tell-whether-your-storage-is-fast-enough-for-etcd",
        "https://github.com/etcd-io/etcd/blob/main/server/storage/wal/file_pipeline.go",
        "https://etcd.io/docs/v3.6/op-guide/hardware/",
    ],
};

const POSTGRESQL: Commit = Commit {
    settings: "fsync = on, synchronous_commit = on, wal_sync_method = fdatasync",
    forces: &[Force {
        file: "WAL segment",
        bytes: 8192,
        state: FileState::Recycled,
        file_bytes: 16 * MIB,
        call: Method::Fdatasync,
    }],
    threshold: None,
    remarks: &["pg_test_fsync measures the same write, and prints its mean."],
    sources: &[
        "https://github.com/postgres/postgres/blob/master/src/bin/pg_test_fsync/pg_test_fsync.c",
    ],
};

const MYSQL: Commit = Commit {
    settings: "innodb_flush_log_at_trx_commit = 1, sync_binlog = 1, innodb_use_fdatasync = ON",
    forces: &[
        Force {
            file: "redo log",
            bytes: 512,
            state: FileState::Recycled,
            file_bytes: 32 * MIB,
            call: Method::Fdatasync,
        },
        Force {
            file: "binary log",
            bytes: 512,
            state: FileState::Growing,
            file_bytes: 64 * MIB,
            call: Method::Fdatasync,
        },
    ],
    threshold: None,
    remarks: &["Without a binary log (skip-log-bin) a commit is the first of the two writes."],
    sources: &[
        "https://github.com/mysql/mysql-server/blob/trunk/storage/innobase/os/os0file.cc",
        "https://github.com/mysql/mysql-server/blob/trunk/mysys/my_sync.cc",
        "https://support.huaweicloud.com/intl/en-us/bestpractice-rds-mysql/rds_02_0010.html",
    ],
};

const MARIADB: Commit = Commit {
    settings: "innodb_flush_log_at_trx_commit = 1, innodb_log_file_buffering = OFF",
    forces: &[Force {
        file: "redo log",
        bytes: 4096,
        state: FileState::Recycled,
        file_bytes: 96 * MIB,
        call: Method::DirectFdatasync,
    }],
    threshold: None,
    remarks: &[
        "MariaDB writes blocks of the disk's physical sector, 512 to 4096 bytes.",
        "With a binary log and sync_binlog = 1 a commit makes another such write to a growing file.",
    ],
    sources: &[
        "https://github.com/MariaDB/server/blob/main/storage/innobase/log/log0log.cc",
        "https://github.com/MariaDB/server/blob/main/storage/innobase/os/os0file.cc",
        "https://mariadb.com/docs/server/ref/mdb/system-variables/innodb_flush_log_at_trx_commit",
    ],
};

const SQLITE: Commit = Commit {
    settings: "PRAGMA journal_mode = WAL, PRAGMA synchronous = FULL",
    forces: &[Force {
        file: "WAL",
        // A frame: its header and a page.
        bytes: 24 + 4096,
        state: FileState::Recycled,
        // A checkpoint begins at 1000 frames.
        file_bytes: 1000 * (24 + 4096),
        call: Method::Fdatasync,
    }],
    threshold: None,
    remarks: &[
        "A checkpoint after 1000 pages, which also writes the database, is not measured.",
        "The default journal_mode, DELETE, forces several files for a commit.",
    ],
    sources: &["https://github.com/sqlite/sqlite/blob/master/src/wal.c"],
};

const KAFKA: Commit = Commit {
    settings: "flush.messages = 1",
    forces: &[Force {
        file: "log segment",
        // Largest batch of a producer with the default batch.size.
        bytes: 16_384,
        state: FileState::Growing,
        file_bytes: 256 * MIB,
        call: Method::Fsync,
    }],
    threshold: None,
    remarks: &[
        "Kafka's manual recommends not to set flush.messages: replicas keep the messages, not the disk.",
    ],
    sources: &[
        "https://github.com/apache/kafka/blob/trunk/clients/src/main/java/org/apache/kafka/common/record/FileRecords.java",
        "https://github.com/apache/kafka/blob/trunk/clients/src/main/java/org/apache/kafka/common/config/TopicConfig.java",
    ],
};

const REDIS: Commit = Commit {
    settings: "appendonly yes, appendfsync always",
    forces: &[Force {
        file: "append-only file",
        // The SET of redis-benchmark: a key of 16 bytes, a value of 3.
        bytes: 45,
        state: FileState::Growing,
        file_bytes: 64 * MIB,
        call: Method::Fdatasync,
    }],
    threshold: Some(Threshold {
        of: Part::All,
        limit: Duration::from_secs(2),
        effect: "with appendfsync everysec Redis no longer waits for the disk: all clients are delayed, and it \
                 logs that the fsync takes too long",
        by: "Redis' own warning",
        address: "https://github.com/redis/redis/blob/unstable/src/aof.c",
    }),
    remarks: &[
        "With everysec a force has a second's writes behind it, and takes longer than one here.",
    ],
    sources: &[
        "https://github.com/redis/redis/blob/unstable/src/config.h",
        "https://github.com/redis/redis/blob/unstable/src/redis-benchmark.c",
    ],
};

const NATS: Commit = Commit {
    settings: "sync_interval: always",
    forces: &[Force {
        file: "message block",
        // Header 22, checksum 8, subject and message.
        bytes: 256,
        state: FileState::Growing,
        file_bytes: 8 * MIB,
        call: Method::Fsync,
    }],
    threshold: None,
    remarks: &["The default, sync_interval: 2m, forces nothing when a message is acknowledged."],
    sources: &["https://github.com/nats-io/nats-server/blob/main/server/filestore.go"],
};

const ZOOKEEPER: Commit = Commit {
    settings: "forceSync=yes",
    forces: &[Force {
        file: "transaction log",
        bytes: 256,
        // Extended by 64 MiB without blocks; each write allocates its own.
        state: FileState::Growing,
        file_bytes: 64 * MIB,
        call: Method::Fdatasync,
    }],
    threshold: Some(Threshold {
        of: Part::All,
        limit: Duration::from_secs(1),
        effect: "ZooKeeper logs a warning, and every write waits as long",
        by: "ZooKeeper's fsync.warningthresholdms",
        address: "https://zookeeper.apache.org/doc/current/zookeeperAdmin.html",
    }),
    remarks: &[],
    sources: &[
        "https://github.com/apache/zookeeper/blob/master/zookeeper-server/src/main/java/org/apache/zookeeper/server/persistence/FilePadding.java",
        "https://github.com/apache/zookeeper/blob/master/zookeeper-server/src/main/java/org/apache/zookeeper/server/persistence/FileTxnLog.java",
    ],
};

const ROCKSDB: Commit = Commit {
    settings: "WriteOptions::sync = true, recycle_log_file_num = 0",
    forces: &[Force {
        file: "WAL",
        // The record of db_bench fillsync: key 16, value 100, headers.
        bytes: 138,
        // Blocks are reserved, but each write changes the size of the file.
        state: FileState::Growing,
        file_bytes: 64 * MIB,
        call: Method::Fdatasync,
    }],
    threshold: None,
    remarks: &[
        "With recycle_log_file_num > 0 the file is recycled, which saves a change of metadata.",
    ],
    sources: &[
        "https://github.com/facebook/rocksdb/blob/main/env/fs_posix.cc",
        "https://github.com/facebook/rocksdb/blob/main/include/rocksdb/options.h",
        "https://github.com/facebook/rocksdb/blob/main/tools/db_bench_tool.cc",
    ],
};

const CASSANDRA: Commit = Commit {
    settings: "commitlog_sync: batch",
    forces: &[Force {
        file: "commit log segment",
        // Synced in whole pages, because the segment is mapped.
        bytes: 4096,
        // Extended without blocks; each write allocates its own.
        state: FileState::Growing,
        file_bytes: 32 * MIB,
        call: Method::Fdatasync,
    }],
    threshold: None,
    remarks: &[
        "Cassandra writes through a mapping and calls msync: fdatasync after a write has the same effect.",
        "The default, commitlog_sync: periodic, acknowledges before the force. Its warning, of syncs that \
         take longer than commitlog_sync_period, is about ten seconds of writes, not about one commit.",
    ],
    sources: &[
        "https://github.com/apache/cassandra/blob/trunk/src/java/org/apache/cassandra/db/commitlog/MemoryMappedSegment.java",
        "https://github.com/apache/cassandra/blob/trunk/src/java/org/apache/cassandra/db/commitlog/AbstractCommitLogService.java",
    ],
};

const MONGODB: Commit = Commit {
    settings: "write concern j: true",
    forces: &[Force {
        file: "journal file",
        // Records are multiples of 128 bytes.
        bytes: 512,
        state: FileState::Fallocated,
        file_bytes: 100 * MIB,
        call: Method::Fdatasync,
    }],
    threshold: None,
    remarks: &["Clients that commit at the same time share a force."],
    sources: &[
        "https://www.mongodb.com/docs/manual/core/journaling/",
        "https://github.com/wiredtiger/wiredtiger/blob/develop/src/log/log.c",
        "https://github.com/wiredtiger/wiredtiger/blob/develop/src/os_posix/os_fs.c",
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_commit_is_durable_by_a_method_of_each_platform() {
        for system in System::ALL {
            let commit = system.commit().unwrap();
            assert!(
                !commit.forces.is_empty() && !commit.sources.is_empty(),
                "{system}"
            );
            for force in commit.forces {
                assert!(
                    force.bytes > 0 && force.file_bytes >= force.bytes,
                    "{system}"
                );
                for platform in Platform::ALL {
                    let method = force.method(platform);
                    assert!(method.is_of(platform), "{system}: {method}");
                    let (asked, made) = (force.call.plan(), method.plan());
                    assert_eq!(asked.direct, made.direct, "{system}: {method}");
                    assert!(!force.buffered(platform).plan().direct, "{system}");
                    assert_ne!(
                        made.force,
                        logforce_device::ForceBy::None,
                        "{system}: {method}"
                    );
                }
            }
        }
    }

    /// A measurement names the files of a commit by their states.
    #[test]
    fn the_files_of_a_commit_differ_in_state() {
        for system in System::ALL {
            let forces = system.commit().unwrap().forces;
            for (n, force) in forces.iter().enumerate() {
                let same = forces[..n].iter().any(|f| f.state == force.state);
                assert!(!same, "{system}: {}", force.file);
            }
        }
    }

    #[test]
    fn every_fact_has_an_address() {
        for system in System::ALL {
            let commit = system.commit().unwrap();
            let threshold = commit.threshold.map(|t| t.address);
            for address in commit.sources.iter().copied().chain(threshold) {
                assert!(address.starts_with("https://"), "{system}: {address}");
            }
        }
    }

    #[test]
    fn the_line_for_fio_makes_the_same_writes() {
        let line =
            |system: System, n: usize| system.commit().unwrap().forces[n].fio(system, 10_000);
        assert_eq!(
            line(System::Etcd, 0),
            "fio --name=etcd --ioengine=sync --rw=write --bs=2300 --size=23000000 --fdatasync=1 --fallocate=native"
        );
        assert!(line(System::Mariadb, 0).ends_with("--overwrite=1 --direct=1"));
        assert!(line(System::Nats, 0).ends_with("--fsync=1 --fallocate=none"));
    }

    #[test]
    fn a_hundredth_may_exceed_a_limit_of_the_99th_percentile() {
        assert_eq!(Part::P99.may_exceed(10_000), 100);
        assert_eq!(Part::P99.may_exceed(99), 0);
        assert_eq!(Part::All.may_exceed(10_000), 0);
    }
}
