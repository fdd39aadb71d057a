//! The stores that are compared.

mod bare;
mod keyed;
#[cfg(feature = "lmdb")]
mod lmdb;
mod mapped;
mod ours;
mod plain;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "sqlite")]
mod sqlite;

use super::store::PageStore;
pub use plain::NAME as PLAIN;

/// Returns all stores of this build.
pub fn all() -> Vec<Box<dyn PageStore>> {
    vec![
        Box::new(plain::Plain),
        Box::new(mapped::Mapped),
        Box::new(bare::Bare),
        Box::new(ours::Ours::logged()),
        Box::new(ours::Ours::copy_on_write()),
        #[cfg(feature = "lmdb")]
        Box::new(lmdb::Lmdb),
        #[cfg(feature = "redb")]
        Box::new(redb::Redb),
        #[cfg(feature = "sqlite")]
        Box::new(sqlite::Sqlite),
    ]
}
