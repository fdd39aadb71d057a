//! A bucket in memory: the operations of S3 that an archive uses.

use crate::http::{Request, Response, unescape};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Bound;
use std::sync::Arc;

/// Copy of the objects between two deletions.
#[derive(Debug)]
pub(crate) enum Kept {
    No,
    /// To be made after this number of further deletions.
    After(u32),
    Yes(BTreeMap<String, Arc<Vec<u8>>>),
}

/// Bucket in memory.
#[derive(Debug)]
pub(crate) struct Bucket {
    pub(crate) name: String,
    pub(crate) objects: BTreeMap<String, Arc<Vec<u8>>>,
    /// Copy of the objects, if one was asked for.
    pub(crate) kept: Kept,
    /// False for a store that ignores `If-None-Match`.
    pub(crate) has_conditional_create: bool,
    /// False for a store that does not copy objects itself.
    pub(crate) can_copy: bool,
    /// Largest number of names in one answer to a listing.
    pub(crate) page_len: usize,
}

impl Bucket {
    /// Does a request. Its caller holds the lock of the bucket, so that a conditional put is one step.
    pub(crate) fn answer(&mut self, request: &mut Request) -> Response {
        let path = request.path.clone();
        let path = path.trim_start_matches('/');
        let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
        if bucket != self.name {
            return Response::error(404, "NoSuchBucket");
        }
        match (request.method.as_str(), key) {
            ("GET", "") if request.parameter("list-type") == Some("2") => self.list(request),
            ("PUT", key) if !key.is_empty() => self.put(request, key),
            ("GET" | "HEAD", key) if !key.is_empty() => self.get(request, key),
            ("DELETE", key) if !key.is_empty() => {
                self.objects.remove(key);
                self.kept = match std::mem::replace(&mut self.kept, Kept::No) {
                    Kept::After(0 | 1) => Kept::Yes(self.objects.clone()),
                    Kept::After(deletions) => Kept::After(deletions - 1),
                    kept => kept,
                };
                Response::new(204, "")
            }
            _ => Response::error(501, "NotImplemented"),
        }
    }

    fn put(&mut self, request: &mut Request, key: &str) -> Response {
        if let Some(condition) = request.header("if-none-match")
            && self.has_conditional_create
        {
            if condition != "*" {
                return Response::error(501, "NotImplemented");
            }
            if self.objects.contains_key(key) {
                return Response::error(412, "PreconditionFailed");
            }
        }
        let Some(source) = request.header("x-amz-copy-source") else {
            let tag = tag(&request.body);
            self.objects
                .insert(key.to_owned(), Arc::new(std::mem::take(&mut request.body)));
            return Response::new(200, "").with("ETag", tag);
        };
        if !self.can_copy {
            return Response::error(501, "NotImplemented");
        }
        let source = unescape(source.trim_start_matches('/'));
        let object = match source.split_once('/') {
            Some((bucket, key)) if bucket == self.name => self.objects.get(key).cloned(),
            _ => return Response::error(404, "NoSuchBucket"),
        };
        let Some(object) = object else {
            return Response::error(404, "NoSuchKey");
        };
        let result = format!(
            "<CopyObjectResult><ETag>{}</ETag></CopyObjectResult>",
            escape(&tag(&object))
        );
        self.objects.insert(key.to_owned(), object);
        Response::new(200, result).with("Content-Type", "application/xml")
    }

    fn get(&self, request: &Request, key: &str) -> Response {
        let Some(object) = self.objects.get(key) else {
            return Response::error(404, "NoSuchKey");
        };
        let described = |response: Response| {
            response
                .with("ETag", tag(object))
                .with("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        };
        let Some(range) = request.header("range") else {
            return described(Response::new(200, object.to_vec()));
        };
        let ends = range.strip_prefix("bytes=").and_then(|ends| {
            let (first, last) = ends.split_once('-')?;
            let last = match last {
                "" => usize::MAX,
                last => last.parse().ok()?,
            };
            Some((first.parse::<usize>().ok()?, last))
        });
        let Some((first, last)) = ends.filter(|(first, last)| first <= last) else {
            return Response::error(400, "InvalidArgument");
        };
        if first >= object.len() {
            return Response::error(416, "InvalidRange");
        }
        let last = last.min(object.len() - 1);
        let part = Response::new(206, &object[first..=last]);
        let content = format!("bytes {first}-{last}/{}", object.len());
        described(part.with("Content-Range", content))
    }

    fn list(&self, request: &Request) -> Response {
        let prefix = request.parameter("prefix").unwrap_or_default();
        let delimiter = request.parameter("delimiter").unwrap_or_default();
        let after = request.parameter("continuation-token");
        let after = after
            .or(request.parameter("start-after"))
            .unwrap_or_default();
        let asked = request
            .parameter("max-keys")
            .and_then(|max| max.parse().ok());
        let max = self.page_len.min(asked.unwrap_or(usize::MAX));
        let mut entries = String::new();
        let (mut count, mut folder, mut last) = (0, None::<String>, None);
        let mut is_truncated = false;
        let from = (Bound::Excluded(after.to_owned()), Bound::Unbounded);
        for (name, object) in self.objects.range(from) {
            let Some(rest) = name.strip_prefix(prefix) else {
                continue;
            };
            let is_in = |folder: &String| name.starts_with(folder);
            if folder.as_ref().is_some_and(is_in) {
                last = Some(name);
                continue;
            }
            if count == max {
                is_truncated = true;
                break;
            }
            count += 1;
            last = Some(name);
            match rest.split_once(delimiter) {
                Some((first, _)) if !delimiter.is_empty() => {
                    let common = format!("{prefix}{first}{delimiter}");
                    let words = escape(&common);
                    let _ = write!(
                        entries,
                        "<CommonPrefixes><Prefix>{words}</Prefix></CommonPrefixes>"
                    );
                    folder = Some(common);
                }
                _ => {
                    let _ = write!(
                        entries,
                        "<Contents><Key>{}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>\
                         <ETag>{}</ETag><Size>{}</Size></Contents>",
                        escape(name),
                        escape(&tag(object)),
                        object.len()
                    );
                }
            }
        }
        let next = match last {
            Some(last) if is_truncated => {
                format!(
                    "<NextContinuationToken>{}</NextContinuationToken>",
                    escape(last)
                )
            }
            _ => String::new(),
        };
        Response::new(
            200,
            format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?><ListBucketResult><Name>{}</Name>\
                 <KeyCount>{count}</KeyCount><IsTruncated>{is_truncated}</IsTruncated>{next}{entries}\
                 </ListBucketResult>",
                self.name
            ),
        )
        .with("Content-Type", "application/xml")
    }
}

/// Returns a tag of an object: its length and a hash of 4096 of its bytes. A tag of all bytes would take most
/// of the time of a listing.
fn tag(bytes: &[u8]) -> String {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let sample = bytes.iter().step_by(bytes.len() / 4096 + 1);
    let hash = sample.fold(0xcbf2_9ce4_8422_2325, step);
    format!("\"{hash:016x}-{:x}\"", bytes.len())
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
