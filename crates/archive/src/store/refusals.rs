//! Answers of object_store's errors: which are certain, which are not, and which no retry helps.
//!
//! object_store keeps status and body of an answer only in the text of its errors.

use super::answer::Answer;
use super::error::StoreError;
use object_store::Error;
use std::error::Error as _;

/// Operation of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Create,
    Replace,
    Copy,
    Get,
    Delete,
    List,
}

impl Operation {
    pub(super) fn verb(self) -> &'static str {
        match self {
            Operation::Create => "create",
            Operation::Replace => "replace",
            Operation::Copy => "copy",
            Operation::Get => "read",
            Operation::Delete => "delete",
            Operation::List => "list",
        }
    }
}

/// Longest part of a server's answer in an error.
const MAX_CAUSE: usize = 300;

const NO_BUCKET: &str = "create the bucket, or correct its name, its region or the endpoint";
const RIGHTS: &str = "give these credentials the rights to list, read, create, replace and delete objects \
     below this URL";
const CREDENTIALS: &str =
    "set valid credentials in the environment, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
const REGION: &str = "set the region of the bucket, for S3 in AWS_REGION";
const CLOCK: &str = "set the clock of this machine: the store accepts a difference of 15 minutes";
const UNABLE: &str = "use a store with conditional puts (If-None-Match)";
const CERTIFICATE: &str = "install the certificate authority of the store, or correct the endpoint";
const NO_CREDENTIALS: &str = "the environment has no credentials, so the metadata service of a cloud \
     machine was asked: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
const PLAIN_HTTP: &str = "the endpoint begins with http://, so nothing would be encrypted on the way: use \
     https://, or set AWS_ALLOW_HTTP=true (AZURE_ALLOW_HTTP, GOOGLE_ALLOW_HTTP)";
const SETTINGS: &str = "correct the settings of the store in the environment";

/// Names of errors in answers, for which the remedy is known and a retry is useless.
const HOPELESS: [(&str, &str); 17] = [
    ("NoSuchBucket", NO_BUCKET),
    ("ContainerNotFound", NO_BUCKET),
    ("The specified bucket does not exist", NO_BUCKET),
    ("InvalidBucketName", NO_BUCKET),
    ("InvalidAccessKeyId", CREDENTIALS),
    ("SignatureDoesNotMatch", CREDENTIALS),
    ("ExpiredToken", CREDENTIALS),
    ("InvalidToken", CREDENTIALS),
    ("RequestTimeTooSkewed", CLOCK),
    ("AuthorizationHeaderMalformed", REGION),
    ("PermanentRedirect", REGION),
    ("incorrectly configured region", REGION),
    ("IllegalLocationConstraintException", REGION),
    ("NotImplemented", UNABLE),
    ("MethodNotAllowed", UNABLE),
    ("invalid peer certificate", CERTIFICATE),
    ("URL scheme is not allowed", PLAIN_HTTP),
];

/// Returns the answer that an error stands for.
pub(super) fn answer<T>(operation: Operation, subject: String, error: &Error) -> Answer<T> {
    let text = chain(error);
    let status = status(&text);
    let failed = |remedy| StoreError {
        doing: operation.verb(),
        subject: subject.clone(),
        cause: cause(&text, status),
        remedy,
    };
    let hopeless = HOPELESS.iter().find(|(name, _)| text.contains(name));
    if let Some((_, remedy)) = hopeless {
        return Answer::Refused(failed(Some(*remedy)));
    }
    match (error, status) {
        // S3's conflict of two conditional puts: one of them may be done, or none. Azure says the same
        // of an object that exists.
        (_, Some(409)) if operation == Operation::Create && text.contains("BlobAlreadyExists") => {
            Answer::Exists
        }
        (_, Some(409)) => Answer::Unknown(failed(None)),
        (Error::AlreadyExists { .. } | Error::Precondition { .. }, _)
            if operation == Operation::Create =>
        {
            Answer::Exists
        }
        (Error::NotFound { .. }, _)
            if matches!(
                operation,
                Operation::Copy | Operation::Get | Operation::Delete
            ) =>
        {
            Answer::Missing
        }
        // A range of an empty object cannot be had, and no object of an archive is empty.
        (_, Some(416)) if operation == Operation::Get => Answer::Unknown(failed(None)),
        (Error::NotFound { .. }, _) | (_, Some(404)) => Answer::Refused(failed(Some(NO_BUCKET))),
        (Error::PermissionDenied { .. }, _) | (_, Some(403)) => {
            Answer::Refused(failed(Some(RIGHTS)))
        }
        (Error::Unauthenticated { .. }, _) | (_, Some(401)) => {
            Answer::Refused(failed(Some(CREDENTIALS)))
        }
        (_, Some(405 | 501)) => Answer::Refused(failed(Some(UNABLE))),
        (_, Some(301 | 307 | 308)) => Answer::Refused(failed(Some(REGION))),
        (
            Error::NotSupported { .. }
            | Error::NotImplemented { .. }
            | Error::InvalidPath { .. }
            | Error::UnknownConfigurationKey { .. },
            _,
        ) => Answer::Refused(failed(Some(SETTINGS))),
        _ if text.contains("169.254.") => Answer::Unknown(failed(Some(NO_CREDENTIALS))),
        _ => Answer::Unknown(failed(None)),
    }
}

/// Returns the texts of an error and its causes, each once.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let words = cause.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        next = cause.source();
    }
    text
}

/// Returns the status of an answer, if there was one.
fn status(text: &str) -> Option<u16> {
    let (_, rest) = text.split_once("status code: ")?;
    rest.get(..3)?.parse().ok()
}

/// Returns status and message of an answer, or the error without object_store's frame.
fn cause(text: &str, status: Option<u16>) -> String {
    let between = |from: &str, to: &str| {
        let (_, rest) = text.split_once(from)?;
        rest.split_once(to).map(|(words, _)| words.to_owned())
    };
    let named = between("<Code>", "</Code>").map(|code| {
        let message = between("<Message>", "</Message>").unwrap_or_default();
        format!("{code}: {message}")
    });
    let rest = text.split_once(" - ").map_or(text, |(_, rest)| rest);
    let words = named.unwrap_or_else(|| rest.to_owned());
    let mut words: String = words.chars().take(MAX_CAUSE).collect();
    if let Some(status) = status
        && !words.contains(&status.to_string())
    {
        words = format!("{words} (status {status})");
    }
    words
}
