//! What a Raft node keeps, on Logforce: [`LogStore`] for its log and its vote, [`StateMachine`] for
//! what it applied. Both pass openraft's own storage test suite (`cargo test -p logforce-openraft`).
//!
//! | openraft | Logforce |
//! |---|---|
//! | an entry | a record |
//! | `append`, its callback | `reserve`, then `Permit::submit`, and the last handle awaited in a task |
//! | `truncate` (a new leader overwrites) | `truncate_back` |
//! | `purge` (a snapshot covers it) | `truncate_front` |
//! | vote, committed, purged | `set_meta`: small, atomic, forced |

mod log_store;
mod state_machine;

pub use log_store::{LogReader, LogStore};
pub use state_machine::{SnapshotBuilder, StateMachine};

use serde::{Deserialize, Serialize};
use std::io::Cursor;

/// A command: give a key a value.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Set {
    /// The key.
    pub key: String,
    /// Its new value.
    pub value: String,
}

/// What the key had before.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Before(pub Option<String>);

openraft::declare_raft_types!(
    /// The types of this store.
    pub TypeConfig:
        D = Set,
        R = Before,
        NodeId = u64,
        Node = openraft::BasicNode,
        Entry = openraft::Entry<TypeConfig>,
        SnapshotData = Cursor<Vec<u8>>,
);

pub(crate) type LogId = openraft::LogId<u64>;
pub(crate) type Vote = openraft::Vote<u64>;
pub(crate) type Entry = openraft::Entry<TypeConfig>;
pub(crate) type StorageError = openraft::StorageError<u64>;
pub(crate) type Membership = openraft::StoredMembership<u64, openraft::BasicNode>;
