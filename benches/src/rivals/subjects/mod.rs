//! All rivals, in the order of the table.

#[cfg(any(feature = "hiqlite-wal", feature = "openraft"))]
mod batch;
#[cfg(feature = "fjall")]
mod fjall;
#[cfg(feature = "fsys")]
mod fsys;
#[cfg(feature = "hiqlite-wal")]
mod hiqlite_wal;
#[cfg(feature = "lmdb")]
mod lmdb;
mod logforce;
#[cfg(feature = "okaywal")]
pub(in crate::rivals) mod okaywal;
#[cfg(feature = "open-wal")]
mod open_wal;
#[cfg(feature = "raft-engine")]
pub(super) mod raft_engine;
#[cfg(feature = "raft-log")]
mod raft_log;
#[cfg(feature = "openraft")]
mod raft_store;
mod raw;
mod recycling;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
#[cfg(feature = "sqlite")]
mod sqlite;

#[cfg(feature = "go")]
use crate::rivals::apart;
use crate::rivals::rival::Entry;
#[cfg(not(feature = "go"))]
use crate::rivals::rival::{ETCD_WAL, RAFT_WAL};

/// Name of the raw loop.
pub const RAW: &str = "raw";
/// Name of the library.
pub const LOGFORCE: &str = "logforce";

/// Name of the library with small segments that are truncated and recycled.
pub const RECYCLING: &str = "logforce-recycling";

/// Expands to the entry of a rival, or to an absent entry if its feature is off.
macro_rules! behind {
    ($feature:literal, $rival:expr) => {{
        #[cfg(feature = $feature)]
        let entry = Entry::Here(Box::new($rival));
        #[cfg(not(feature = $feature))]
        let entry = Entry::Absent {
            name: $feature,
            why: concat!("built without the feature `", $feature, "`").to_owned(),
        };
        entry
    }};
}

/// Returns all of them.
pub fn all() -> Vec<Entry> {
    let mut all = vec![
        Entry::Here(Box::new(raw::Raw)),
        Entry::Here(Box::new(logforce::Logforce)),
        Entry::Here(Box::new(recycling::Recycling)),
        behind!("okaywal", okaywal::Okaywal),
        behind!("raft-engine", raft_engine::RaftEngine),
        behind!("raft-log", raft_log::RaftLog),
        behind!("hiqlite-wal", hiqlite_wal::HiqliteWal),
        behind!("openraft", raft_store::LogforceStore),
        behind!("rocksdb", rocksdb::RocksDb),
        behind!("open-wal", open_wal::OpenWal),
        behind!("fsys", fsys::Fsys),
        behind!("fjall", fjall::Fjall),
        behind!("sqlite", sqlite::Sqlite),
        behind!("redb", redb::Redb),
        behind!("lmdb", lmdb::Lmdb),
    ];
    all.extend(in_go());
    all
}

/// Returns the subjects that are written in Go.
#[cfg(feature = "go")]
fn in_go() -> Vec<Entry> {
    apart::entries()
}

/// Returns the subjects that are written in Go.
#[cfg(not(feature = "go"))]
fn in_go() -> Vec<Entry> {
    let absent = |name| Entry::Absent {
        name,
        why: "built without the feature `go`".to_owned(),
    };
    [ETCD_WAL, RAFT_WAL].map(absent).into()
}
