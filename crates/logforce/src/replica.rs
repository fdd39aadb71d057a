//! Replicas: a party that keeps the log elsewhere, so that a commit can survive the loss of the machine.
//!
//! [`Log::replicate`](crate::Log::replicate) attaches one replica to an open log. It reads the durable bytes
//! as chunks, stores them where it likes, and confirms them; commits by
//! [`Policy::Replicated`](crate::Policy::Replicated) return when their record is confirmed. [`import`] makes
//! a log of the chunks again. The crate `logforce-archive` is such a replica, in object storage.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir_in(".")?;
//! # let (path, copy) = (dir.path().join("log"), dir.path().join("copy"));
//! # use logforce::{Guarantee, Options};
//! use logforce::Policy;
//! use logforce::replica::{ImportOptions, ReplicaOptions, ReplicaWait, import};
//! # let options = Options::new().require(Guarantee::ProcessCrash);
//! # let restore = ImportOptions::new().require(Guarantee::ProcessCrash);
//! let log = logforce::open_or_create(&path, options)?;
//! let mut replica = log.replicate(ReplicaOptions::new())?;
//! let keeper = std::thread::spawn(move || -> logforce::Result<_> {
//!     let mut kept = Vec::new();
//!     while let ReplicaWait::Ready = replica.wait(None)? {
//!         while let Some(chunk) = replica.read(1 << 20)? {
//!             let end = chunk.to;
//!             kept.push(chunk); // stored durably on another machine, in earnest
//!             replica.confirm(end)?;
//!         }
//!     }
//!     Ok(kept)
//! });
//! let sale = log.commit_with(b"one coffee, 2.50", Policy::Replicated)?;
//! assert_eq!(sale.guarantee, Guarantee::MachineLoss);
//! log.close()?;
//!
//! let mut restored = import(&copy, restore)?;
//! for chunk in keeper.join().expect("no panic")? {
//!     restored.chunk(chunk.from, &chunk.bytes, &chunk.control, chunk.meta.as_deref())?;
//! }
//! restored.finish()?;
//! # Ok(())
//! # }
//! ```

use crate::Result;
use std::path::Path;

pub use logforce_core::{
    AtHoldLimit, ChunkChain, Hold, Import, ImportOptions, LogChunk, LogState, ReadOnlyReplica,
    ReplicaOptions, ReplicaWait, Replication, joined_control,
};

/// Begins to make a log of chunks, in the directory `to`. It must be missing or empty, or contain an import
/// that was cut short, which is removed.
///
/// # Errors
/// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the directory is not empty or guarantees
/// less than [`ImportOptions::require`]; [`ErrorKind::Io`](crate::ErrorKind::Io).
pub fn import(to: impl AsRef<Path>, options: ImportOptions) -> Result<Import<'static>> {
    Import::new(&logforce_device_os::OsSystem, to.as_ref(), options)
}

/// Opens the log in `path` to copy it while another process writes it, or none does. `after` is the
/// [control slot](LogChunk::control) of the last chunk that the replica has; `None` for a new one.
///
/// # Errors
/// [`ErrorKind::NoLog`](crate::ErrorKind::NoLog), [`ErrorKind::Io`](crate::ErrorKind::Io).
pub fn read_only(path: impl AsRef<Path>, after: Option<&[u8]>) -> Result<ReadOnlyReplica> {
    let system = std::sync::Arc::new(logforce_device_os::OsSystem);
    ReadOnlyReplica::open(system, path.as_ref(), after)
}
