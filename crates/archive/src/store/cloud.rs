//! Buckets: S3, Google Cloud Storage and Azure, through object_store.

use super::answer::Answer;
use super::error::{self, StoreError};
use super::location::Service;
use super::refusals::{Operation, answer};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use object_store::path::Path;
use object_store::{
    ClientOptions, GetOptions, GetRange, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions,
    PutPayload, RetryConfig,
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
}

impl Cloud {
    pub(super) fn open(
        url: &str,
        service: Service,
        bucket: &str,
        prefix: &str,
        endpoint: Option<&str>,
    ) -> Result<Cloud, StoreError> {
        install_tls();
        // Its own retries would hide that a try has succeeded: the next one then meets its own object.
        let retry = RetryConfig {
            max_retries: 0,
            ..RetryConfig::default()
        };
        let mut client = ClientOptions::new().with_timeout_disabled();
        if endpoint.is_some_and(|endpoint| endpoint.starts_with("http://")) {
            client = client.with_allow_http(true);
        }
        let built: object_store::Result<Arc<dyn ObjectStore>> = match service {
            #[cfg(feature = "s3")]
            Service::S3 => {
                use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
                let mut builder = AmazonS3Builder::from_env()
                    .with_bucket_name(bucket)
                    .with_retry(retry)
                    .with_disable_bulk_delete(true);
                if builder
                    .get_config_value(&AmazonS3ConfigKey::UnsignedPayload)
                    .is_none_or(|set| set == "false")
                {
                    builder = builder.with_unsigned_payload(true);
                }
                if let Some(endpoint) = endpoint {
                    builder = builder.with_endpoint(endpoint);
                }
                builder
                    .with_client_options(client)
                    .build()
                    .map(|store| Arc::new(store) as _)
            }
            #[cfg(feature = "gcs")]
            Service::Gcs => {
                use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
                let mut builder = GoogleCloudStorageBuilder::from_env()
                    .with_bucket_name(bucket)
                    .with_retry(retry)
                    .with_client_options(client);
                if let Some(endpoint) = endpoint {
                    builder = builder.with_config(GoogleConfigKey::BaseUrl, endpoint);
                }
                builder.build().map(|store| Arc::new(store) as _)
            }
            #[cfg(feature = "azure")]
            Service::Azure => {
                use object_store::azure::MicrosoftAzureBuilder;
                let mut builder = MicrosoftAzureBuilder::from_env()
                    .with_container_name(bucket)
                    .with_retry(retry)
                    .with_client_options(client);
                if let Some(endpoint) = endpoint {
                    builder = builder.with_endpoint(endpoint.to_owned());
                }
                builder.build().map(|store| Arc::new(store) as _)
            }
            #[allow(unreachable_patterns, reason = "each feature adds an arm")]
            _ => return Err(error::not_built(url)),
        };
        let store = built.map_err(|source| StoreError {
            doing: "open the archive",
            subject: url.to_owned(),
            cause: source.to_string(),
            remedy: Some(
                "the settings come from the environment, such as AWS_REGION and AWS_ENDPOINT",
            ),
        })?;
        Ok(Cloud {
            store,
            url: url.trim_end_matches('/').to_owned(),
            prefix: prefix.to_owned(),
            lists_in_order: !bucket.ends_with("--x-s3"),
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

    /// Reads at most the first `len` bytes.
    pub(super) async fn get(&self, name: &str, len: u64, limit: Duration) -> Answer<Bytes> {
        let path = self.path(name);
        let get = async {
            let options = GetOptions {
                range: Some(GetRange::Bounded(0..len)),
                ..GetOptions::default()
            };
            let result = self.store.get_opts(&path, options).await?;
            // The length that the server states, within what was asked for.
            let expected = (result.range.end - result.range.start).min(len);
            let mut parts = result.into_stream();
            let mut first = match parts.next().await {
                None => return Ok(Bytes::new()),
                Some(part) => part?,
            };
            if first.len() as u64 >= expected {
                first.truncate(len as usize);
                return Ok(first);
            }
            let mut bytes = BytesMut::with_capacity(expected as usize);
            bytes.extend_from_slice(&first);
            drop(first);
            while let Some(part) = parts.next().await {
                let part = part?;
                let space = (len as usize).saturating_sub(bytes.len());
                bytes.extend_from_slice(&part[..part.len().min(space)]);
            }
            Ok(bytes.freeze())
        };
        self.within(limit, Operation::Get, name, get).await
    }

    pub(super) async fn delete(&self, name: &str, limit: Duration) -> Answer<()> {
        let path = self.path(name);
        let delete = self.store.delete(&path);
        self.within(limit, Operation::Delete, name, delete).await
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

/// Gives rustls its cryptography, unless the program has done so. Without it, reqwest panics.
fn install_tls() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error means that another thread was faster.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}
