//! Guarantee of an acknowledged insert, derived from a database's documented settings and the facts
//! about the disk.

use logforce_device::{Assessment, Facts, FileState, Guarantee, Method, Source, Verdict};

/// Description of most settings that make a log durable.
pub const SYNCED: &str = "the log is synced at each commit";

/// Returns the guarantee of a log that is forced at each commit by `method`, on this disk. `None` if the
/// system has no such method.
pub fn forced(facts: &Facts, method: Method, state: FileState, how: &str) -> Option<Assessment> {
    let mut known = facts.assess(method, state)?;
    known.evidence = format!("{how}; {}", known.evidence);
    Some(known)
}

/// Returns the plain sync of this system, as portable programs call it.
pub fn sync(facts: &Facts) -> Method {
    [Method::Fdatasync, Method::Flush]
        .into_iter()
        .find(|m| m.is_of(facts.platform))
        .unwrap_or(Method::Fsync)
}

/// Returns a guarantee that the manual states.
pub fn documented(guarantee: Guarantee, why: &str) -> Assessment {
    Assessment::new(guarantee, Verdict::Declared, Source::Server, why)
}

/// Returns the guarantee of a server that forces its log on an unknown disk.
pub fn elsewhere(how: &str) -> Assessment {
    Assessment::new(
        Guarantee::PowerLoss,
        Verdict::Unknown,
        Source::Server,
        format!("{how}; whether the disk of that server keeps it is not known here"),
    )
}
