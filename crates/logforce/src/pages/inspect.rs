//! Looking into a page file that is not opened: header, page table, pages, commits in the log.

pub use logforce_pages::{
    ChangeInfo, ChangeKind, CopyOnWriteRoot, Damage, FileSummary, FoundPage, HeaderSlot, Held,
    Inspector, LoggedState, NextOpening, NodeInfo, PageFileHeader, PageFileId, PageFileKind,
    PageHeaderReject, PageInfo, PageSource, RedoInfo, RedoSummary, TableSummary, VerifyReport,
    Visit,
};

use logforce_pages::Result;
use std::path::Path;
use std::sync::Arc;

/// Opens the page file in the directory `path` for inspection: nothing is locked, changed or forced,
/// and another process may be writing it.
pub fn open(path: impl AsRef<Path>) -> Result<Inspector> {
    Inspector::open(Arc::new(logforce_device_os::OsSystem::new()), path)
}
