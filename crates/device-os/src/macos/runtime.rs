use std::io::Read;

pub use crate::waiting::{wait, wake as wake_one, wake as wake_all};

/// Returns random bytes; `None` in a sandbox without `/dev/urandom`.
pub fn random() -> Option<[u8; 8]> {
    let mut bytes = [0u8; 8];
    let mut source = std::fs::File::open("/dev/urandom").ok()?;
    source.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

/// Returns the process's number, which differs in a forked child. (The system may reuse it after many
/// processes.)
pub fn process() -> u64 {
    std::process::id().into()
}
