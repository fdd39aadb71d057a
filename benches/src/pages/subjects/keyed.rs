//! Pages in stores that keep keys and values.
#![cfg_attr(
    not(any(feature = "lmdb", feature = "redb", feature = "sqlite")),
    allow(dead_code)
)]

use crate::pages::store::Change;

/// Size of a value, bytes. With the store's own headers it fills one page of 4096 bytes, but not two.
pub const VALUE: usize = 4000;

/// Pages per transaction while the file is created.
pub const FILL: u64 = 8192;

/// Returns the initial content of a page.
pub fn filled(page: u64) -> [u8; VALUE] {
    let mut value = [page as u8; VALUE];
    value[..8].copy_from_slice(&page.to_le_bytes());
    value
}

/// Returns the value after the change; `before` returns the old value.
pub fn changed(change: &Change<'_>, before: impl FnOnce() -> Option<Vec<u8>>) -> Vec<u8> {
    if change.is_whole() {
        return change.bytes[..VALUE].to_vec();
    }
    let mut value = before().unwrap_or_else(|| vec![0; VALUE]);
    let at = change.at.min(VALUE - change.bytes.len());
    value[at..at + change.bytes.len()].copy_from_slice(change.bytes);
    value
}
