//! Buckets: S3, Google Cloud Storage and Azure, through object_store.

use super::answer::Answer;
use super::error::{self, StoreError};
use super::location::Service;
use super::options::{StoreOptions, TimeLimit};
use super::refusals::{Operation, answer};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use object_store::path::Path;
use object_store::{
    GetOptions, GetRange, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload,
    RetryConfig,
};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// Prefix in a bucket.
#[derive(Debug, Clone)]
pub(super) struct Cloud {
    store: Arc<dyn ObjectStore>,
    url: String,
    prefix: String,
    /// False for buckets of S3 Express, which list in any order.
    lists_in_order: bool,
    /// False for Azure, where a copy may go on after the answer: its source would be deleted too early.
    copies: bool,
}

impl Cloud {
    pub(super) fn open(
        url: &str,
        service: Service,
        bucket: &str,
        prefix: String,
        options: &StoreOptions,
    ) -> Result<Cloud, StoreError> {
        install_tls();
        let built = match service {
            #[cfg(feature = "s3")]
            Service::S3 => s3(bucket, options),
            #[cfg(feature = "gcs")]
            Service::Gcs => gcs(bucket, options),
            #[cfg(feature = "azure")]
            Service::Azure => azure(bucket, options),
            #[allow(unreachable_patterns, reason = "each feature adds an arm")]
            _ => return Err(error::not_built(url)),
        };
        let store = built.map_err(|source| StoreError {
            doing: "open the archive",
            subject: url.to_owned(),
            cause: source.to_string(),
            remedy: Some(
                "correct the setting, which comes from the environment or the options of the store",
            ),
        })?;
        Ok(Cloud {
            store,
            url: url.trim_end_matches('/').to_owned(),
            prefix,
            lists_in_order: !bucket.ends_with("--x-s3"),
            copies: !matches!(service, Service::Azure),
        })
    }

    pub(super) async fn create(&self, name: &str, bytes: Bytes, limit: Duration) -> Answer<()> {
        self.put(Operation::Create, PutMode::Create, name, bytes, limit)
            .await
    }

    pub(super) async fn replace(&self, name: &str, bytes: Bytes, limit: Duration) -> Answer<()> {
        self.put(Operation::Replace, PutMode::Overwrite, name, bytes, limit)
            .await
    }

    async fn put(
        &self,
        operation: Operation,
        mode: PutMode,
        name: &str,
        bytes: Bytes,
        limit: Duration,
    ) -> Answer<()> {
        let path = self.path(name);
        let options = PutOptions::from(mode);
        let put = self.store.put_opts(&path, PutPayload::from(bytes), options);
        self.within(limit, operation, name, put).await.map(drop)
    }

    /// Copies an object over what is at the name `to`.
    pub(super) async fn copy(&self, from: &str, to: &str, limit: Duration) -> Answer<()> {
        if !self.copies {
            return Answer::Refused(StoreError {
                doing: Operation::Copy.verb(),
                subject: format!("{}/{from}", self.url),
                cause: "the service may answer before it has copied".to_owned(),
                remedy: None,
            });
        }
        let (source, target) = (self.path(from), self.path(to));
        let copy = self.store.copy(&source, &target);
        self.within(limit, Operation::Copy, from, copy).await
    }

    /// Reads at most the first `len` bytes. The beginning of the answer has a time limit, and then the rest
    /// one for its length, which is not known before.
    pub(super) async fn get(&self, name: &str, len: u64, limit: TimeLimit) -> Answer<Bytes> {
        let path = self.path(name);
        let options = GetOptions {
            range: Some(GetRange::Bounded(0..len)),
            ..GetOptions::default()
        };
        let get = self.store.get_opts(&path, options);
        let result = match self.within(limit.of(0), Operation::Get, name, get).await {
            Answer::Done(result) => result,
            answer => return answer.map(|_| Bytes::new()),
        };
        // The server states the length. It is believed within what was asked for.
        let expected = result.range.end.saturating_sub(result.range.start).min(len);
        let read = async {
            let mut parts = result.into_stream();
            let mut bytes = BytesMut::with_capacity(expected as usize);
            while let Some(part) = parts.next().await {
                let part = part?;
                let space = (expected as usize).saturating_sub(bytes.len());
                bytes.extend_from_slice(&part[..part.len().min(space)]);
            }
            Ok(bytes.freeze())
        };
        self.within(limit.of(expected), Operation::Get, name, read)
            .await
    }

    pub(super) async fn delete(&self, name: &str, limit: Duration) -> Answer<()> {
        let path = self.path(name);
        let delete = self.store.delete(&path);
        match self.within(limit, Operation::Delete, name, delete).await {
            Answer::Missing => Answer::Done(()),
            answer => answer,
        }
    }

    /// Returns the names in a folder and below it that are greater than `after`, up to the first for which
    /// `is_last` holds. Each page has the time limit for itself.
    pub(super) async fn list(
        &self,
        folder: &str,
        after: &str,
        limit: Duration,
        is_last: impl Fn(&str) -> bool,
    ) -> Answer<Vec<String>> {
        let prefix = self.path(folder);
        let after = match after {
            "" => None,
            after => Some(self.path(after)),
        };
        let mut objects = match &after {
            None => self.store.list(Some(&prefix)),
            Some(after) => self.store.list_with_offset(Some(&prefix), after),
        };
        let mut names = Vec::new();
        loop {
            let next = async { objects.next().await.transpose() };
            let object = match self.within(limit, Operation::List, folder, next).await {
                Answer::Done(Some(object)) => object,
                Answer::Done(None) => return Answer::Done(names),
                answer => return answer.map(|_| Vec::new()),
            };
            let Some(name) = self.name(&object.location) else {
                continue;
            };
            if !is_last(name) {
                names.push(name.to_owned());
            } else if self.lists_in_order {
                return Answer::Done(names);
            }
        }
    }

    async fn within<T>(
        &self,
        limit: Duration,
        operation: Operation,
        name: &str,
        work: impl Future<Output = object_store::Result<T>>,
    ) -> Answer<T> {
        match tokio::time::timeout(limit, work).await {
            Ok(Ok(value)) => Answer::Done(value),
            Ok(Err(error)) => {
                let subject = format!("{}/{name}", self.url);
                answer(operation, subject, &error)
            }
            Err(_) => Answer::Unknown(StoreError {
                doing: operation.verb(),
                subject: format!("{}/{name}", self.url),
                cause: error::no_answer_within(limit),
                remedy: None,
            }),
        }
    }

    fn path(&self, name: &str) -> Path {
        Path::from(format!("{}/{name}", self.prefix))
    }

    fn name<'a>(&self, location: &'a Path) -> Option<&'a str> {
        let name = location.as_ref().strip_prefix(&self.prefix)?;
        match self.prefix.as_str() {
            "" => Some(name),
            _ => name.strip_prefix('/'),
        }
    }
}

type Built = object_store::Result<Arc<dyn ObjectStore>>;

/// Returns a retry policy without retries. A retry would hide that the first try has succeeded: it meets
/// its own object.
fn no_retries() -> RetryConfig {
    RetryConfig {
        max_retries: 0,
        ..RetryConfig::default()
    }
}

/// Returns the settings for a builder: ours, then those of the options. `endpoint` is the service's name
/// for its address.
fn settings(options: &StoreOptions, endpoint: &str) -> Vec<(String, String)> {
    // Each operation has a time limit here, which depends on its length.
    let mut settings = vec![("timeout".to_owned(), "1hour".to_owned())];
    for (name, value) in &options.settings {
        settings.push((name.to_ascii_lowercase(), value.clone()));
    }
    if let Some(url) = &options.endpoint {
        let is_plain = url.starts_with("http://");
        settings.push(("allow_http".to_owned(), is_plain.to_string()));
        settings.push((endpoint.to_owned(), url.clone()));
    }
    settings
}

#[cfg(feature = "s3")]
fn s3(bucket: &str, options: &StoreOptions) -> Built {
    let mut builder = object_store::aws::AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        .with_disable_bulk_delete(true)
        .with_retry(no_retries());
    if std::env::var_os("AWS_UNSIGNED_PAYLOAD").is_none() {
        // Signing hashes each object once more. TLS protects it on the way, and its own checksum afterwards.
        builder = builder.with_unsigned_payload(true);
    }
    for (name, value) in settings(options, "aws_endpoint_url_s3") {
        builder = builder.with_config(name.parse()?, value);
    }
    Ok(Arc::new(builder.build()?))
}

#[cfg(feature = "gcs")]
fn gcs(bucket: &str, options: &StoreOptions) -> Built {
    let mut builder = object_store::gcp::GoogleCloudStorageBuilder::from_env()
        .with_bucket_name(bucket)
        .with_retry(no_retries());
    for (name, value) in settings(options, "google_base_url") {
        builder = builder.with_config(name.parse()?, value);
    }
    Ok(Arc::new(builder.build()?))
}

#[cfg(feature = "azure")]
fn azure(bucket: &str, options: &StoreOptions) -> Built {
    let mut builder = object_store::azure::MicrosoftAzureBuilder::from_env()
        .with_container_name(bucket)
        .with_retry(no_retries());
    for (name, value) in settings(options, "azure_endpoint") {
        builder = builder.with_config(name.parse()?, value);
    }
    Ok(Arc::new(builder.build()?))
}

/// Gives rustls its cryptography, unless the program has done so. Without it, reqwest panics.
fn install_tls() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error means that another thread was faster.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}
