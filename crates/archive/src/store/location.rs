//! URLs of archives.

use super::error::StoreError;
use std::path::PathBuf;

/// Parsed URL of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Location {
    /// Directory on this machine.
    Directory(PathBuf),
    /// Bucket, or container, and the prefix of the names in it.
    Bucket {
        /// Service.
        service: Service,
        /// Bucket or container.
        bucket: String,
        /// Prefix without a slash at either end; may be empty.
        prefix: String,
    },
}

/// Service of object storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    /// Amazon S3, and what speaks its protocol.
    S3,
    /// Google Cloud Storage.
    Gcs,
    /// Azure Blob Storage.
    Azure,
}

impl Location {
    /// Parses `s3://bucket/prefix`, `gs://`, `az://`, `azure://`, `file:///directory` or a path.
    pub(super) fn parse(url: &str) -> Result<Location, StoreError> {
        let failed = |cause: &str| StoreError {
            doing: "open the archive",
            subject: url.to_owned(),
            cause: cause.to_owned(),
            remedy: Some(
                "give a directory, file:///directory, s3://bucket/prefix, gs://bucket/prefix or \
                 az://container/prefix",
            ),
        };
        let Some((scheme, rest)) = url.split_once("://") else {
            return match url {
                "" => Err(failed("the URL is empty")),
                path => Ok(Location::Directory(path.into())),
            };
        };
        let service = match scheme {
            "file" => {
                let path = rest.strip_prefix("localhost").unwrap_or(rest);
                if !path.starts_with('/') {
                    return Err(failed("the path in it is not absolute"));
                }
                if path.contains('%') {
                    return Err(failed("it has escapes with %: give the path itself"));
                }
                // `file:///C:/archive`.
                let path = match path.as_bytes() {
                    [b'/', drive, b':', ..] if cfg!(windows) && drive.is_ascii_alphabetic() => {
                        &path[1..]
                    }
                    _ => path,
                };
                return Ok(Location::Directory(path.into()));
            }
            "s3" => Service::S3,
            "gs" => Service::Gcs,
            "az" | "azure" => Service::Azure,
            _ => return Err(failed("its scheme is unknown")),
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_matches('/');
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.+=@/".contains(&b);
        if bucket.is_empty() {
            return Err(failed("it names no bucket"));
        }
        if rest.contains(['?', '#', '@']) {
            return Err(failed(
                "settings and credentials are taken from the environment",
            ));
        }
        let is_segment = |segment: &str| !matches!(segment, "" | "." | "..");
        if !prefix.bytes().all(is_plain)
            || !(prefix.is_empty() || prefix.split('/').all(is_segment))
        {
            return Err(failed(
                "the prefix has other characters than letters, digits and -_.+=/",
            ));
        }
        Ok(Location::Bucket {
            service,
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_of_a_url() {
        let bucket = |service, bucket: &str, prefix: &str| Location::Bucket {
            service,
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
        };
        let forms = [
            ("/srv/archive", Location::Directory("/srv/archive".into())),
            ("archive", Location::Directory("archive".into())),
            ("file:///srv/a b", Location::Directory("/srv/a b".into())),
            ("file://localhost/srv", Location::Directory("/srv".into())),
            ("s3://b", bucket(Service::S3, "b", "")),
            ("s3://b/one/two/", bucket(Service::S3, "b", "one/two")),
            ("gs://b/x", bucket(Service::Gcs, "b", "x")),
            ("az://c/x", bucket(Service::Azure, "c", "x")),
            ("azure://c/x", bucket(Service::Azure, "c", "x")),
        ];
        for (url, location) in forms {
            assert_eq!(Location::parse(url), Ok(location), "{url}");
        }
    }

    #[test]
    fn what_cannot_be_a_url_is_refused_with_the_forms() {
        let urls = [
            "",
            "ftp://host/x",
            "s3://",
            "s3:///x",
            "s3://b/a//b",
            "s3://b/../x",
            "s3://b/%41",
            "s3://key:secret@b/x",
            "s3://b/x?region=eu",
            "file://host/x",
            "file:///a%20b",
        ];
        for url in urls {
            let error = Location::parse(url).unwrap_err().to_string();
            assert!(error.contains("s3://bucket/prefix"), "{url}: {error}");
        }
    }
}
