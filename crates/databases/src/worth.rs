//! What an acknowledged insert survives, from a database's documented settings and the disk's facts.

use logforce_device::{Assessment, Facts, FileState, Guarantee, Method, Verdict};

/// Forced at each commit by `method`: as good as this disk makes it. `None` where the system has no
/// such method.
pub fn forced(facts: &Facts, method: Method, state: FileState, how: &str) -> Option<Assessment> {
    let known = facts.assess(method, state)?;
    Some(Assessment {
        evidence: format!("{how}; {}", known.evidence),
        ..known
    })
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
    Assessment {
        guarantee,
        verdict: Verdict::Declared,
        evidence: why.to_owned(),
    }
}
