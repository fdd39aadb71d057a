//! Questions to devices, on systems where the facts already contain what the device says, or where no program
//! can ask it.

use crate::Asked;
use logforce_device::{Facts, Layer};
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
