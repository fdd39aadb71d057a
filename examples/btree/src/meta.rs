//! Page 0: root and counts of the tree.
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
/// Number of bytes in use.
const LEN: usize = 48;

/// Page number.
pub(crate) const META: u64 = 0;

/// Content of page 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meta {
    /// Number of levels: 1 if the root is a leaf.
    pub(crate) height: u8,
    pub(crate) root: u64,
    pub(crate) keys: u64,
    /// First page of the free list; 0 if it is empty.
    pub(crate) free_list: u64,
    /// Number of free pages, including those of the list itself.
    pub(crate) free: u64,
}

impl Meta {
    pub(crate) fn decode(bytes: &[u8]) -> Result<Meta> {
        if bytes.get(..8) != Some(MAGIC) {
            return Err(Error::NotATree {
                why: "page 0 does not start with the magic of a tree".to_owned(),
            });
        }
        let number = |at| u64_at(bytes, at).unwrap_or(0);
        let version = u32_at(bytes, 8).unwrap_or(0);
        if version != VERSION {
            return Err(Error::NotATree {
                why: format!(
                    "it has format version {version}, but this program reads version {VERSION}"
                ),
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

    /// Returns the level of the root.
    pub(crate) fn top(&self) -> u8 {
        self.height - 1
    }
}
