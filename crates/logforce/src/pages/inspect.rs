//! Inspection of a page file without opening it: header, page table, pages, commits in the log.

pub use logforce_pages::{
    ChangeInfo, ChangeKind, CopyOnWriteRoot, Damage, FileSummary, FoundPage, HeaderSlot, Held,
    Inspector, LoggedState, NextOpening, NodeInfo, PageFileHeader, PageFileId, PageFileKind,
    PageHeaderReject, PageInfo, PageSource, RedoInfo, RedoSummary, TableSummary, VerifyReport,
    Visit,
};

use logforce_pages::Result;
use std::path::Path;
use std::sync::Arc;

/// Opens the page file in the directory `path` for inspection. Locks, changes and forces nothing; another
/// process may be writing the file.
pub fn open(path: impl AsRef<Path>) -> Result<Inspector> {
    Inspector::open(Arc::new(logforce_device_os::OsSystem::new()), path)
}
