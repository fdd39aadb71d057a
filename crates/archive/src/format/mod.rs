//! Bytes of the objects: one envelope for all, compression, and encryption on the client.
//!
//! `docs/archive-format.md` is normative. All that comes from a store is hostile: each length is checked
//! before memory is allocated for it, and nothing here panics.

mod codec;
mod crypt;
mod facts;
mod header;
mod identity;
mod log_part;
mod points;
mod reject;

pub use codec::{Codec, Encoder, MAX_PART_LEN, PEEK_LEN};
pub use crypt::{KEY_LEN, KeyError, SecretKey, random_nonce};
pub use header::{ARCHIVE_FORMAT_VERSION, HEADER_LEN};
pub use identity::Identity;
pub use log_part::{CONTROL_LEN, LogPart, MAX_LOG_LEN, MAX_META_LEN, StoredLog};
pub use points::{MAX_POINTS, Point, Points};
pub use reject::{ObjectError, Reject};
