//! All stores, in the order of the table.

#[cfg(feature = "lmdb")]
mod lmdb;
mod logforce;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "sqlite")]
mod sqlite;

use crate::tree::store::Store;

/// Name of the example tree.
pub const LOGFORCE: &str = "logforce-btree";

/// Returns the stores of this build, and the names of those that are missing from it.
pub fn all() -> (Vec<Box<dyn Store>>, Vec<&'static str>) {
    let stores: Vec<Box<dyn Store>> = vec![
        Box::new(logforce::Logforce),
        #[cfg(feature = "lmdb")]
        Box::new(lmdb::Lmdb),
        #[cfg(feature = "redb")]
        Box::new(redb::Redb),
        #[cfg(feature = "sqlite")]
        Box::new(sqlite::Sqlite),
    ];
    let mut absent = Vec::new();
    for name in ["lmdb", "redb", "sqlite"] {
        if stores.iter().all(|s| s.name() != name) {
            absent.push(name);
        }
    }
    (stores, absent)
}
