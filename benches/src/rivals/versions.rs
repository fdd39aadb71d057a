//! Versions of the linked packages.

const LOCK: &str = include_str!("../../Cargo.lock");

/// Returns the version of a package in `Cargo.lock`, which is the linked one.
pub fn locked(package: &str) -> &'static str {
    let wanted = format!("name = \"{package}\"");
    let mut lines = LOCK.lines();
    lines
        .by_ref()
        .find(|line| *line == wanted)
        .and_then(|_| lines.next())
        .and_then(|line| line.strip_prefix("version = \""))
        .and_then(|rest| rest.strip_suffix('"'))
        .unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_file_is_read() {
        assert_eq!(locked("logforce-benches"), env!("CARGO_PKG_VERSION"));
        assert_eq!(locked("no-such-package"), "?");
    }
}
