//! Making names durable.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;

/// Makes the names in a directory durable.
pub fn sync(dir: &Path) -> io::Result<()> {
    let mut how = OpenOptions::new();
    how.read(true);
    #[cfg(windows)]
    {
        use std::os::windows::fs::OpenOptionsExt;
        /// FILE_FLAG_BACKUP_SEMANTICS: without it no directory is opened.
        const DIRECTORY: u32 = 0x0200_0000;
        // What is flushed has to be open for writing.
        how.write(true).custom_flags(DIRECTORY);
    }
    how.open(dir)?.sync_all()
}
