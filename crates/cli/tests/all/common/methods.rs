//! Methods of this system by what they do, because each system has its own names.

use logforce::Method;

/// Returns the method of that kind with the strongest guarantee.
fn strongest(is_direct: bool) -> &'static str {
    let mut all = Method::here().iter().rev();
    let found = all.find(|m| m.plan().direct == is_direct);
    found.expect("every system has both kinds").name()
}

/// Returns a method that writes through the system's cache, and forces.
pub fn cached() -> &'static str {
    strongest(false)
}

/// Returns a method that bypasses the system's cache, and forces.
pub fn direct() -> &'static str {
    strongest(true)
}
