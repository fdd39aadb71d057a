//! Methods of this system by what they do, since each system has names of its own.

use logforce::Method;

/// The method of that kind that guarantees most.
fn strongest(is_direct: bool) -> &'static str {
    let mut all = Method::here().iter().rev();
    let found = all.find(|m| m.plan().direct == is_direct);
    found.expect("every system has both kinds").name()
}

/// Through the system's cache, and forced.
pub fn cached() -> &'static str {
    strongest(false)
}

/// Past the system's cache, and forced.
pub fn direct() -> &'static str {
    strongest(true)
}
