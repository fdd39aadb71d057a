//! What `verify`, `dump` and `stat` say of a page file.

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

/// What to say of a flag that a page file has no use for.
pub fn only_for_logs(dir: &Path, flag: &str) -> Usage {
    Usage(format!(
        "{flag} is for logs, and {} holds a page file",
        dir.display()
    ))
}

/// What to say of a flag that a log has no use for.
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
        // Without the library's advice, which is to look at it with the command that is doing that.
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
