use rustix::fs::Mode;
use std::io;
use std::path::Path;

/// Makes a directory for its owner only.
pub fn make(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::mkdir(path, Mode::RWXU)?)
}
