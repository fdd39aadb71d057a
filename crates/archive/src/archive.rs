//! An archive, as its users see it.

use crate::bucket::Bucket;
use crate::error::{Error, Result};
use crate::format::SecretKey;
use crate::store::{Pacing, Store, StoreOptions};
use std::time::SystemTime;

/// Archive of one log, at a URL: `s3://bucket/prefix`, `gs://`, `az://`, `file:///directory` or a path.
///
/// Its functions block; call them in a thread that may wait.
#[derive(Debug, Clone)]
pub struct Archive {
    url: String,
    store: Store,
    key: Option<SecretKey>,
    pacing: Pacing,
    clock: fn() -> SystemTime,
}

/// Settings of an [`Archive`].
#[derive(Debug, Clone)]
pub struct ArchiveOptions {
    /// Settings of the store.
    pub store: StoreOptions,
    /// Key of an encrypted archive. A new archive is encrypted if there is one.
    pub key: Option<SecretKey>,
    /// Pauses between the tries of an operation, and the time after which a function gives up. An upload never
    /// gives up.
    pub pacing: Pacing,
    /// Clock of the times in the archive's objects. Default: the system's.
    pub clock: fn() -> SystemTime,
}

impl Default for ArchiveOptions {
    fn default() -> Self {
        ArchiveOptions {
            store: StoreOptions::default(),
            key: None,
            pacing: Pacing::default(),
            clock: SystemTime::now,
        }
    }
}

impl Archive {
    /// Opens the archive at a URL. Nothing is read before the first use.
    pub fn open(url: &str, options: ArchiveOptions) -> Result<Archive> {
        Ok(Archive {
            store: Store::open(url, &options.store)?,
            url: url.to_owned(),
            key: options.key,
            pacing: options.pacing,
            clock: options.clock,
        })
    }

    /// Returns the URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn bucket(&self) -> Bucket {
        let (store, key) = (self.store.clone(), self.key.clone());
        Bucket::new(store, key, self.pacing, self.clock)
    }

    /// Returns the objects of an archive that exists.
    pub(crate) async fn existing(&self) -> Result<Bucket> {
        let bucket = self.bucket();
        match bucket.read_identity().await?.is_some() {
            true => Ok(bucket),
            false => Err(crate::protocol::Error::NoArchive.into()),
        }
    }
}

/// Returns the runtime of one call or one upload. It uses the calling thread.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all();
    builder.build().map_err(|source| Error::Io {
        doing: "start the runtime of the archive",
        source,
    })
}
