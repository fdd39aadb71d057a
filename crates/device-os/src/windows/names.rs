//! Renaming and removing files that other processes have open.
//!
//! On NTFS, Windows 10 does both as other systems do: the name is free at once, and processes that have the
//! file open keep it. Elsewhere an open file can be renamed but not replaced, and a removed one keeps its
//! name until the last handle is closed. So the file is first renamed to a name that `entries` does not show.
//! A crash in between leaves a file of such a name, which the next writer removes.

use super::error::is_refusal;
use super::handle::{self, How, SHARE_ALL};
use super::path::{self, HIDDEN};
use super::retry::while_busy;
use std::io;
use std::os::windows::io::OwnedHandle;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_FLAG_OPEN_REPARSE_POINT, FILE_FLAG_WRITE_THROUGH, FILE_READ_ATTRIBUTES, OPEN_EXISTING,
};

const DELETE: u32 = 0x1_0000;
const SYNCHRONIZE: u32 = 0x10_0000;

/// Makes a name that only this call uses.
pub fn hidden(what: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let time = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |t| t.as_nanos() as u64);
    format!("{HIDDEN}{what}-{process:x}-{time:x}-{number:x}")
}

/// Removes files that crashes left. A file that another process is using stays; that process may remove it
/// itself.
pub fn clean(base: &[u16], dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if let Some(name) = entry.file_name().to_str().filter(|n| path::is_hidden(n)) {
            let _ = remove_aside(&path::child(base, name));
        }
    }
}

/// Opens a file to rename or remove it, so that the change is on the disk when the call returns.
fn to_delete(wide: &[u16]) -> io::Result<OwnedHandle> {
    let how = How {
        access: DELETE | SYNCHRONIZE | FILE_READ_ATTRIBUTES,
        share: SHARE_ALL,
        disposition: OPEN_EXISTING,
        flags: FILE_FLAG_OPEN_REPARSE_POINT | FILE_FLAG_WRITE_THROUGH,
        owner: None,
    };
    while_busy(|| handle::open(wide, how))
}

fn move_over(from: &[u16], to: &[u16]) -> io::Result<()> {
    while_busy(|| handle::move_over(from, to))
}

/// Removes the file `name`; the name is free when this returns.
pub fn remove(base: &[u16], name: &str) -> io::Result<()> {
    let wide = path::child(base, name);
    let file = to_delete(&wide)?;
    match handle::remove_name(&file) {
        Err(e) if is_refusal(&e) => {}
        other => return other,
    }
    drop(file);
    let aside = path::child(base, &hidden("removed"));
    move_over(&wide, &aside)?;
    remove_aside(&aside)
}

/// Removes a renamed file when the last process that has it open closes it. Opens it by its new name, because
/// Wine removes it by the name that the handle was opened by.
fn remove_aside(aside: &[u16]) -> io::Result<()> {
    handle::remove_when_closed(&to_delete(aside)?)
}

/// Renames, and replaces the file of the new name.
pub fn rename(base: &[u16], from: &str, to: &str) -> io::Result<()> {
    let (wide_from, wide_to) = (path::child(base, from), path::child(base, to));
    let error = match move_over(&wide_from, &wide_to) {
        Ok(()) => return Ok(()),
        Err(e) => e,
    };
    // The usual reason is that another process has the target open.
    if !is_refusal(&error) || from == to {
        return Err(error);
    }
    let Ok(file) = to_delete(&wide_from) else {
        return Err(error);
    };
    match handle::rename_over(&file, &wide_to) {
        Err(e) if is_refusal(&e) => {}
        other => return other,
    }
    drop(file);
    // This takes two steps, so it is used only if there is no other way: after a crash between them `to` is
    // missing. A log replaces no file that it has open.
    if to_delete(&wide_to).is_err() {
        return Err(error);
    }
    let aside = path::child(base, &hidden("replaced"));
    move_over(&wide_to, &aside)?;
    if let Err(e) = move_over(&wide_from, &wide_to) {
        move_over(&aside, &wide_to)?;
        return Err(e);
    }
    remove_aside(&aside)
}

#[cfg(test)]
mod tests;
