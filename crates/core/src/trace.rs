//! Spans and events for the crate `tracing`; nothing at all without the feature of that name.
//!
//! Never called with a mutex held: what a subscriber does is its own.

use crate::error::Error;
use crate::types::RecoveryReport;
use logforce_format::Lsn;
use std::path::Path;
use std::time::Duration;

/// A span, entered until it is dropped.
pub(crate) struct Entered {
    #[cfg(feature = "tracing")]
    _span: tracing::span::EnteredSpan,
}

/// The log at `path` is being opened.
pub(crate) fn opening(path: &Path) -> Entered {
    #[cfg(not(feature = "tracing"))]
    let _ = path;
    Entered {
        #[cfg(feature = "tracing")]
        _span: tracing::info_span!(target: "logforce", "open", path = %path.display()).entered(),
    }
}

/// A segment is being prepared.
pub(crate) fn preparing(start: Lsn) -> Entered {
    #[cfg(not(feature = "tracing"))]
    let _ = start;
    Entered {
        #[cfg(feature = "tracing")]
        _span: tracing::debug_span!(target: "logforce", "prepare", start = start.0).entered(),
    }
}

/// Makes functions that send an event, or are empty.
macro_rules! events {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),*) $level:ident {$($field:tt)*})+) => {
        $(
            $(#[$doc])*
            pub(crate) fn $name($($arg: $type),*) {
                #[cfg(feature = "tracing")]
                tracing::$level!(target: "logforce", $($field)*);
                #[cfg(not(feature = "tracing"))]
                let _ = ($($arg,)*);
            }
        )+
    };
}

events! {
    /// The log was opened.
    opened(found: &RecoveryReport, unit: u32) info {
        created = found.created,
        end = found.end.0,
        case = found.case.label(),
        scanned = found.scanned,
        clean = found.clean,
        unit,
        "opened"
    }
    /// A job is done.
    job(kind: &'static str, batches: u64, bytes: u64, took: Duration) debug {
        kind,
        batches,
        bytes,
        took_ns = took.as_nanos() as u64,
        "job"
    }
    /// A job's barriers are done.
    barrier(segments: usize, took: Duration) debug {
        segments = segments as u64,
        took_ns = took.as_nanos() as u64,
        "barrier"
    }
    /// A segment was prepared.
    prepared(start: Lsn, recycled: bool) debug { start = start.0, recycled, "prepared" }
    /// A segment could not be prepared.
    not_prepared(start: Lsn, error: &Error) warn { start = start.0, %error, "not prepared" }
    /// The log was truncated at one end.
    truncated(end: &'static str, at: Lsn) info { end, at = at.0, "truncated" }
    /// The log has failed, and accepts nothing more.
    poisoned(error: &Error) error { %error, "poisoned" }
    /// The log is closed.
    closed(durable: Lsn) info { durable = durable.0, "closed" }
}
