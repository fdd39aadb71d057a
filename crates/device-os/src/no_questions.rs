//! Questions to devices, on systems where the facts already contain what the device says, or where no program
//! can ask it.

use crate::{Asked, OsSystem};
use logforce_device::{Facts, Layer, System};
use std::io;
use std::path::Path;

/// Asks no device.
///
/// # Errors
/// Never.
pub fn ask_devices(_layers: &[Layer], _with_usb: bool) -> io::Result<Vec<Asked>> {
    Ok(Vec::new())
}

/// Fails: this system's facts are those of a directory.
///
/// # Errors
/// Always `Unsupported`.
pub fn device_facts(path: &Path) -> io::Result<Facts> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        format!(
            "{} is not a directory, and only Linux describes devices by their path",
            path.display()
        ),
    ))
}

/// Returns the facts of the directory of a file.
///
/// # Errors
/// As [`Directory::facts`](logforce_device::Directory::facts).
pub fn file_facts(path: &Path) -> io::Result<Facts> {
    let dir = path.parent().unwrap_or(path);
    System::directory(&OsSystem::new(), dir)?.facts()
}

/// Returns `None`: this system is not asked about its hypervisor.
///
/// # Errors
/// Never.
pub fn hypervisor() -> io::Result<Option<String>> {
    Ok(None)
}
