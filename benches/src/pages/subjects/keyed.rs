//! Pages in stores that keep keys and values.
#![cfg_attr(
    not(any(feature = "lmdb", feature = "redb", feature = "sqlite")),
    allow(dead_code)
)]

use crate::pages::store::Change;

/// Bytes of a value. With the store's own headers it fills a page of 4096 bytes and no second one.
pub const VALUE: usize = 4000;

/// Pages that a transaction writes while the file is made.
pub const FILL: u64 = 8192;

/// What is in a page at first.
pub fn filled(page: u64) -> [u8; VALUE] {
    let mut value = [page as u8; VALUE];
    value[..8].copy_from_slice(&page.to_le_bytes());
    value
}

/// A value after the change; `before` is what it was.
pub fn changed(change: &Change<'_>, before: impl FnOnce() -> Option<Vec<u8>>) -> Vec<u8> {
    if change.is_whole() {
        return change.bytes[..VALUE].to_vec();
    }
    let mut value = before().unwrap_or_else(|| vec![0; VALUE]);
    let at = change.at.min(VALUE - change.bytes.len());
    value[at..at + change.bytes.len()].copy_from_slice(change.bytes);
    value
}
