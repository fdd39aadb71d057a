//! The code of the page on page files.

use super::Result;
use crate::common::examples::too_weak;
use crate::common::*;
use logforce::pages::{ErrorKind, Options, PageFile};
use std::path::Path;

#[test]
fn pages() -> Result<()> {
    let home = temp();
    if too_weak(home.path()) {
        return Ok(());
    }
    let dir = &home.path().join("accounts");
    let file = logforce::pages::open_or_create(dir, Options::new())?;
    file.transact(|transfer| {
        transfer.page_mut(3)?[..5].copy_from_slice(b"-2.50"); // as it was when the transaction began
        transfer.page_mut(9)?[..5].copy_from_slice(b"+2.50");
        Ok(())
    })?; // both pages are durable
    let mut page = vec![0; file.page_size() as usize];
    file.snapshot()?.read(9, &mut page)?;
    assert_eq!(&page[..5], b"+2.50");
    file.close()?;
    let file = logforce::pages::open_existing(dir, Options::new())?;
    file.snapshot()?.read(3, &mut page)?;
    assert_eq!(&page[..5], b"-2.50");
    let to = &home.path().join("backup");
    assert_eq!(back_up(&file, to)?, 1);
    let copy = logforce::pages::open_existing(to, Options::new())?;
    copy.snapshot()?.read(9, &mut page)?;
    assert_eq!(&page[..5], b"+2.50");
    let error = back_up(&file, to).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    Ok(())
}

fn back_up(file: &PageFile, to: &Path) -> logforce::pages::Result<u64> {
    let state = file.snapshot()?; // what is durable now
    state.backup(to, logforce::BackupOptions::new())?;
    Ok(state.commit()) // everything up to this commit is in it
}
