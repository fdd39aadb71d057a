//! Object storage, or a directory, as a store of an archive.
//!
//! Each operation is one try with a time limit. The protocol decides on a further one, because it may have
//! to read first. [`Pacing`] says when it may begin.

mod answer;
#[cfg(feature = "cloud")]
mod cloud;
mod directory;
mod disk;
mod error;
mod location;
mod options;
mod pacing;
mod probe;
#[cfg(feature = "cloud")]
mod refusals;

pub use answer::Answer;
pub use error::StoreError;
pub use options::StoreOptions;
pub use pacing::{Pacing, Retries};
pub use probe::Probe;

use crate::format::{Codec, random_nonce};
use crate::key::Key;
use bytes::Bytes;
use directory::Directory;
use location::Location;
use options::TimeLimit;
use std::sync::Arc;

/// Place of the objects of one archive. Its operations need a runtime of tokio with time.
#[derive(Debug, Clone)]
pub struct Store {
    backend: Backend,
    time_limit: TimeLimit,
}

#[derive(Debug, Clone)]
enum Backend {
    Directory(Arc<Directory>),
    #[cfg(feature = "cloud")]
    Cloud(cloud::Cloud),
}

impl Store {
    /// Opens the archive at a URL: `s3://bucket/prefix`, `gs://`, `az://`, `file:///directory` or a path.
    ///
    /// The bucket or the directory must exist. Buckets are not asked before the first operation.
    pub fn open(url: &str, options: &StoreOptions) -> Result<Store, StoreError> {
        let backend = match Location::parse(url)? {
            Location::Directory(path) => {
                let instance = random_nonce().map_err(|error| StoreError {
                    doing: "open the archive",
                    subject: url.to_owned(),
                    cause: error.to_string(),
                    remedy: None,
                })?;
                let directory = Directory::open(&path, instance.0 as u64)?;
                Backend::Directory(Arc::new(directory))
            }
            #[cfg(feature = "cloud")]
            Location::Bucket {
                service,
                bucket,
                prefix,
            } => Backend::Cloud(cloud::Cloud::open(url, service, &bucket, prefix, options)?),
            #[cfg(not(feature = "cloud"))]
            Location::Bucket { .. } => return Err(error::not_built(url)),
        };
        Ok(Store {
            backend,
            time_limit: TimeLimit(options.time_limit),
        })
    }

    /// Creates an object, unless one has this name. `Done` means that it is durable and that this try
    /// created it.
    pub async fn create(&self, key: &Key, bytes: Bytes) -> Answer<()> {
        self.create_named(key.to_string(), bytes).await
    }

    /// Creates or replaces an object.
    pub async fn replace(&self, key: &Key, bytes: Bytes) -> Answer<()> {
        self.replace_named(key.to_string(), bytes).await
    }

    /// Gives an object a second name, at which there is none, or an equal object. `Done` means that it is
    /// durable there. The store copies the bytes itself, if it can; otherwise they are read and created, and
    /// then `Exists` is an answer too.
    pub async fn copy(&self, from: &Key, to: &Key) -> Answer<()> {
        match self.copy_named(from.to_string(), to.to_string()).await {
            // Not each store can, and not with each set of rights.
            Answer::Refused(_) => match self.get(from).await {
                Answer::Done(bytes) => self.create(to, bytes).await,
                answer => answer.map(drop),
            },
            copied => copied,
        }
    }

    /// Reads an object. An object larger than [`Codec::max_object_len`] is cut there, and so fails its check.
    pub async fn get(&self, key: &Key) -> Answer<Bytes> {
        self.get_named(key.to_string(), Codec::max_object_len() + 1, false)
            .await
    }

    /// Reads the beginning of an object, at most `len` bytes, to decide by it: the object is durable in its
    /// store, also if its creator had no answer yet.
    pub async fn get_start(&self, key: &Key, len: u64) -> Answer<Bytes> {
        self.get_named(key.to_string(), len, true).await
    }

    /// Deletes an object. One that is not there counts as deleted.
    pub async fn delete(&self, key: &Key) -> Answer<()> {
        self.delete_named(key.to_string()).await
    }

    /// Returns the keys whose names begin with `prefix`, which ends with a slash, and are greater than
    /// `after`, in order. The first key that is not wanted ends the listing.
    ///
    /// Each page of the listing has the time limit for itself. Objects that are not the archive's are
    /// skipped.
    pub async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        is_wanted: impl Fn(&Key) -> bool,
    ) -> Answer<Vec<Key>> {
        let is_last = |name: &str| Key::parse(name).is_some_and(|key| !is_wanted(&key));
        let folder = prefix.trim_end_matches('/');
        let listed = self
            .list_named(folder, after.unwrap_or_default(), is_last)
            .await;
        listed.map(|mut names| {
            names.sort_unstable();
            let keys = names.iter().filter_map(|name| Key::parse(name));
            keys.filter(is_wanted).collect()
        })
    }

    /// Confirms that a URL names a store. Reads nothing.
    pub fn check_url(url: &str) -> Result<(), StoreError> {
        Location::parse(url).map(drop)
    }

    /// Tries out if the store is fit for an archive, and leaves nothing behind.
    pub async fn probe(&self) -> Result<Probe, StoreError> {
        probe::probe(self).await
    }

    async fn list_named(
        &self,
        folder: &str,
        after: &str,
        is_last: impl Fn(&str) -> bool,
    ) -> Answer<Vec<String>> {
        match &self.backend {
            Backend::Directory(directory) => {
                let directory = directory.clone();
                let (folder, after) = (folder.to_owned(), after.to_owned());
                let list = move || directory.list(&folder, &after);
                let listed = self.blocking("list", String::new(), 0, list).await;
                listed.map(|mut names| {
                    let end = names.iter().position(|name| is_last(name));
                    names.truncate(end.unwrap_or(names.len()));
                    names
                })
            }
            #[cfg(feature = "cloud")]
            Backend::Cloud(cloud) => {
                cloud
                    .list(folder, after, self.time_limit.of(0), is_last)
                    .await
            }
        }
    }

    async fn create_named(&self, name: String, bytes: Bytes) -> Answer<()> {
        match &self.backend {
            Backend::Directory(directory) => {
                let (directory, file) = (directory.clone(), name.clone());
                self.blocking("create", name, bytes.len() as u64, move || {
                    directory.create(&file, &bytes)
                })
                .await
            }
            #[cfg(feature = "cloud")]
            Backend::Cloud(cloud) => {
                let limit = self.time_limit.of(bytes.len() as u64);
                cloud.create(&name, bytes, limit).await
            }
        }
    }

    async fn replace_named(&self, name: String, bytes: Bytes) -> Answer<()> {
        match &self.backend {
            Backend::Directory(directory) => {
                let (directory, file) = (directory.clone(), name.clone());
                self.blocking("replace", name, bytes.len() as u64, move || {
                    directory.replace(&file, &bytes)
                })
                .await
            }
            #[cfg(feature = "cloud")]
            Backend::Cloud(cloud) => {
                let limit = self.time_limit.of(bytes.len() as u64);
                cloud.replace(&name, bytes, limit).await
            }
        }
    }

    async fn copy_named(&self, from: String, to: String) -> Answer<()> {
        match &self.backend {
            Backend::Directory(directory) => {
                let (directory, name) = (directory.clone(), from.clone());
                self.blocking("copy", from, 0, move || directory.copy(&name, &to))
                    .await
            }
            #[cfg(feature = "cloud")]
            Backend::Cloud(cloud) => {
                let limit = self.time_limit.of(Codec::max_object_len());
                cloud.copy(&from, &to, limit).await
            }
        }
    }

    async fn get_named(&self, name: String, len: u64, durable: bool) -> Answer<Bytes> {
        match &self.backend {
            Backend::Directory(directory) => {
                let (directory, file) = (directory.clone(), name.clone());
                self.blocking("read", name, len, move || {
                    directory.get(&file, len, durable)
                })
                .await
            }
            #[cfg(feature = "cloud")]
            Backend::Cloud(cloud) => cloud.get(&name, len, self.time_limit).await,
        }
    }

    async fn delete_named(&self, name: String) -> Answer<()> {
        match &self.backend {
            Backend::Directory(directory) => {
                let (directory, file) = (directory.clone(), name.clone());
                self.blocking("delete", name, 0, move || directory.delete(&file))
                    .await
            }
            #[cfg(feature = "cloud")]
            Backend::Cloud(cloud) => cloud.delete(&name, self.time_limit.of(0)).await,
        }
    }

    /// Runs an operation of the directory on a thread of its runtime. At the time limit it is left to
    /// itself: a disk of another machine may hang, and the operation may still be done later.
    async fn blocking<T: Send + 'static>(
        &self,
        doing: &'static str,
        name: String,
        len: u64,
        operation: impl FnOnce() -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        let limit = self.time_limit.of(len);
        let task = tokio::task::spawn_blocking(operation);
        let cause = match tokio::time::timeout(limit, task).await {
            Ok(Ok(answer)) => return answer,
            Ok(Err(error)) => error.to_string(),
            Err(_) => error::no_answer_within(limit),
        };
        let subject = match &self.backend {
            Backend::Directory(directory) => directory.root().join(name).display().to_string(),
            #[cfg(feature = "cloud")]
            Backend::Cloud(_) => name,
        };
        Answer::Unknown(StoreError {
            doing,
            subject,
            cause,
            remedy: None,
        })
    }
}
