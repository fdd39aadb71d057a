//! Output of `verify`, `dump` and `stat` for a page file.

pub mod dump;
mod info;
pub mod page;
pub mod stat;
pub mod verify;

use crate::exit::{Damaged, Usage};
use crate::log_args::LogArgs;
use anyhow::bail;
use logforce::pages::{Error, inspect::Inspector};
use std::path::Path;

/// Returns the error for a flag that does not apply to page files.
pub fn only_for_logs(dir: &Path, flag: &str) -> Usage {
    Usage(format!(
        "{flag} is for logs, and {} holds a page file",
        dir.display()
    ))
}

/// Returns the error for a flag that does not apply to logs.
pub fn only_for_page_files(dir: &Path, flag: &str) -> Usage {
    Usage(format!(
        "{flag} is for page files, and {} holds none",
        dir.display()
    ))
}

/// Opens the page file.
fn inspector(args: &LogArgs) -> anyhow::Result<Inspector> {
    if args.salvage {
        bail!(only_for_logs(&args.dir, "--salvage"));
    }
    match logforce::pages::inspect::open(&args.dir) {
        // Leaves out the library's advice, which names the command that is running.
        Err(Error::Damaged {
            path,
            what,
            offset,
            found,
        }) => bail!(Damaged(format!(
            "damaged page file: {what} in {} at byte {offset}: {found}. Restore it from a backup",
            path.display()
        ))),
        opened => Ok(opened?),
    }
}
