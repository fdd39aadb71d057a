//! Page 0: where the tree begins.
//!
//! ```text
//! 0        8         12       16     24       32          40     48
//! ┌─────────┬─────────┬────────┬──────┬────────┬───────────┬──────┐
//! │  magic  │ version │ height │ root │  keys  │ free list │ free │
//! └─────────┴─────────┴────────┴──────┴────────┴───────────┴──────┘
//! ```

use crate::bytes::{put, u32_at, u64_at};
use crate::error::{Error, Result};
use crate::limits::MAX_HEIGHT;

const MAGIC: &[u8; 8] = b"LFBTREE\0";
const VERSION: u32 = 1;
/// Bytes that are used.
const LEN: usize = 48;

/// The page's number.
pub(crate) const META: u64 = 0;

/// What page 0 says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meta {
    /// Levels of the tree: 1 if the root is a leaf.
    pub(crate) height: u8,
    pub(crate) root: u64,
    pub(crate) keys: u64,
    /// The first page of the free list; 0 if it is empty.
    pub(crate) free_list: u64,
    /// Pages that are free, those of the list itself included.
    pub(crate) free: u64,
}

impl Meta {
    pub(crate) fn decode(bytes: &[u8]) -> Result<Meta> {
        if bytes.get(..8) != Some(MAGIC) {
            return Err(Error::NotATree {
                why: "its page 0 begins otherwise".to_owned(),
            });
        }
        let number = |at| u64_at(bytes, at).unwrap_or(0);
        let version = u32_at(bytes, 8).unwrap_or(0);
        if version != VERSION {
            return Err(Error::NotATree {
                why: format!("it has format version {version}, this program reads {VERSION}"),
            });
        }
        let height = u32_at(bytes, 12).unwrap_or(0);
        if !(1..=u32::from(MAX_HEIGHT)).contains(&height) {
            return Err(Error::corrupt(META, format!("a tree of {height} levels")));
        }
        Ok(Meta {
            height: height as u8,
            root: number(16),
            keys: number(24),
            free_list: number(32),
            free: number(40),
        })
    }

    pub(crate) fn encode(&self, bytes: &mut [u8]) {
        let mut head = [0; LEN];
        put(&mut head, 0, MAGIC);
        put(&mut head, 8, &VERSION.to_le_bytes());
        put(&mut head, 12, &u32::from(self.height).to_le_bytes());
        put(&mut head, 16, &self.root.to_le_bytes());
        put(&mut head, 24, &self.keys.to_le_bytes());
        put(&mut head, 32, &self.free_list.to_le_bytes());
        put(&mut head, 40, &self.free.to_le_bytes());
        put(bytes, 0, &head);
    }

    /// The level of the root.
    pub(crate) fn top(&self) -> u8 {
        self.height - 1
    }
}
