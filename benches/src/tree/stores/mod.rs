//! Everyone who can be measured, in the order of the table.

#[cfg(feature = "lmdb")]
mod lmdb;
mod logforce;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "sqlite")]
mod sqlite;

use crate::tree::store::Store;

/// The name of the example tree.
pub const LOGFORCE: &str = "logforce-btree";

/// Those of this build, and the names of those that are not in it.
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
