//! What an acknowledged insert survives, from a database's documented settings and the disk's facts.

use logforce_device::{Assessment, Facts, FileState, Guarantee, Method, Source, Verdict};

/// How a log is made durable by most of them.
pub const SYNCED: &str = "the log is synced at each commit";

/// Forced at each commit by `method`: as good as this disk makes it. `None` where the system has no
/// such method.
pub fn forced(facts: &Facts, method: Method, state: FileState, how: &str) -> Option<Assessment> {
    let mut known = facts.assess(method, state)?;
    known.evidence = format!("{how}; {}", known.evidence);
    Some(known)
}

/// The plain sync of this system: what a portable program calls.
pub fn sync(facts: &Facts) -> Method {
    [Method::Fdatasync, Method::Flush]
        .into_iter()
        .find(|m| m.is_of(facts.platform))
        .unwrap_or(Method::Fsync)
}

/// Survives `guarantee`, as the manual says.
pub fn documented(guarantee: Guarantee, why: &str) -> Assessment {
    Assessment::new(guarantee, Verdict::Declared, Source::Server, why)
}

/// Forced, by a server whose disk is not known.
pub fn elsewhere(how: &str) -> Assessment {
    Assessment::new(
        Guarantee::PowerLoss,
        Verdict::Unknown,
        Source::Server,
        format!("{how}; whether the disk of that server keeps it is not known here"),
    )
}
