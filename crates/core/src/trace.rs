//! Spans and events for the crate `tracing`. Without the feature `tracing`, the functions are empty.
//!
//! Never called with a mutex held, because a subscriber may do anything.

use crate::error::Error;
use crate::types::RecoveryReport;
use logforce_format::Lsn;
use std::path::Path;
use std::time::Duration;

/// A span that is entered until this is dropped.
pub(crate) struct Entered {
    #[cfg(feature = "tracing")]
    _span: tracing::span::EnteredSpan,
}

/// Enters the span of an opening of the log at `path`.
pub(crate) fn opening(path: &Path) -> Entered {
    #[cfg(not(feature = "tracing"))]
    let _ = path;
    Entered {
        #[cfg(feature = "tracing")]
        _span: tracing::info_span!(target: "logforce", "open", path = %path.display()).entered(),
    }
}

/// Enters the span of the preparing of a segment.
pub(crate) fn preparing(start: Lsn) -> Entered {
    #[cfg(not(feature = "tracing"))]
    let _ = start;
    Entered {
        #[cfg(feature = "tracing")]
        _span: tracing::debug_span!(target: "logforce", "prepare", start = start.0).entered(),
    }
}

/// Defines functions that send an event, or are empty without the feature `tracing`.
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
