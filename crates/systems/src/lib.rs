//! Facts about other systems that make data durable, as plain data: [`commit`] has the commits that they
//! make, and what they demand of a disk; [`settings`] has the settings that decide what a commit survives.
//! Each fact has the address of its source.

#![forbid(unsafe_code)]

pub mod commit;
pub mod settings;

use commit::Commit;
use std::fmt;

/// A system that makes data durable, such as a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum System {
    /// etcd.
    Etcd,
    /// PostgreSQL.
    Postgresql,
    /// MySQL with InnoDB.
    Mysql,
    /// MariaDB with InnoDB.
    Mariadb,
    /// SQLite.
    Sqlite,
    /// Apache Kafka.
    Kafka,
    /// Redis or Valkey.
    Redis,
    /// NATS JetStream.
    Nats,
    /// Apache ZooKeeper.
    Zookeeper,
    /// RocksDB.
    Rocksdb,
    /// Apache Cassandra.
    Cassandra,
    /// MongoDB.
    Mongodb,
}

impl System {
    /// All systems.
    pub const ALL: [System; 12] = [
        System::Etcd,
        System::Postgresql,
        System::Mysql,
        System::Mariadb,
        System::Sqlite,
        System::Kafka,
        System::Redis,
        System::Nats,
        System::Zookeeper,
        System::Rocksdb,
        System::Cassandra,
        System::Mongodb,
    ];

    /// Returns the name used on the command line and in reports, such as `postgresql`.
    pub fn name(self) -> &'static str {
        match self {
            System::Etcd => "etcd",
            System::Postgresql => "postgresql",
            System::Mysql => "mysql",
            System::Mariadb => "mariadb",
            System::Sqlite => "sqlite",
            System::Kafka => "kafka",
            System::Redis => "redis",
            System::Nats => "nats",
            System::Zookeeper => "zookeeper",
            System::Rocksdb => "rocksdb",
            System::Cassandra => "cassandra",
            System::Mongodb => "mongodb",
        }
    }

    /// Returns the name in sentences, such as `PostgreSQL`.
    pub fn title(self) -> &'static str {
        match self {
            System::Etcd => "etcd",
            System::Postgresql => "PostgreSQL",
            System::Mysql => "MySQL",
            System::Mariadb => "MariaDB",
            System::Sqlite => "SQLite",
            System::Kafka => "Kafka",
            System::Redis => "Redis",
            System::Nats => "NATS JetStream",
            System::Zookeeper => "ZooKeeper",
            System::Rocksdb => "RocksDB",
            System::Cassandra => "Cassandra",
            System::Mongodb => "MongoDB",
        }
    }

    /// Returns the commit that this system makes; `None` if it is not known.
    pub fn commit(self) -> Option<&'static Commit> {
        commit::of(self)
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for (n, system) in System::ALL.iter().enumerate() {
            let same = System::ALL.iter().position(|s| s.name() == system.name());
            assert_eq!(same, Some(n), "{system}");
        }
    }
}
