//! Recorded answers of devices.

use crate::linux::commands::Commands;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Answers by the kernel name of the device, and a count of the commands.
#[derive(Debug, Default)]
pub struct Recorded {
    pub devices: HashMap<String, Answers>,
    pub sent: AtomicUsize,
}

/// Answers of one device. A command without an answer is refused.
#[derive(Debug, Default, Clone)]
pub struct Answers {
    pub identify: Option<Vec<u8>>,
    pub nvme_cache: Option<u32>,
    pub mode_sense: Option<Vec<u8>>,
    pub ata: Option<Vec<u8>>,
    pub targets: Option<Vec<String>>,
    /// True if this process lacks the right to send SCSI commands.
    pub is_denied: bool,
}

impl Recorded {
    fn of(&self, node: &Path) -> Answers {
        self.sent.fetch_add(1, Relaxed);
        let name = node.file_name().unwrap().to_str().unwrap();
        self.devices.get(name).cloned().unwrap_or_default()
    }
}

fn refused() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "the device refused the command")
}

impl Commands for Recorded {
    fn nvme_identify(&self, node: &Path) -> io::Result<Vec<u8>> {
        self.of(node).identify.ok_or_else(refused)
    }

    fn nvme_cache(&self, node: &Path) -> io::Result<u32> {
        self.of(node).nvme_cache.ok_or_else(refused)
    }

    fn scsi(&self, node: &Path, command: &[u8], len: usize) -> io::Result<Vec<u8>> {
        let answers = self.of(node);
        if answers.is_denied {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        match (command, len) {
            // The current values of the caching page, and IDENTIFY DEVICE by PIO.
            ([0x1a, 0, 0x08, 0, 192, 0], 192) => answers.mode_sense.ok_or_else(refused),
            ([0x85, 0x08, 0x0e, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xec, 0], 512) => {
                answers.ata.ok_or_else(refused)
            }
            _ => panic!("{command:x?} with {len} bytes may do anything"),
        }
    }

    fn mapped(&self, control: &Path, device: (u32, u32)) -> io::Result<Vec<String>> {
        assert!(control.ends_with("mapper/control"));
        self.of(Path::new(&format!("dm-{}", device.1)))
            .targets
            .ok_or_else(refused)
    }
}

/// Makes the answer of an NVMe controller to Identify.
pub fn identify(has_cache: bool) -> Vec<u8> {
    let mut data = vec![0; crate::nvme::LEN];
    data[24..64].fill(b' ');
    data[24..28].copy_from_slice(b"ACME");
    (data[512], data[513], data[525]) = (0x66, 0x44, u8::from(has_cache));
    data
}

/// Makes the answer of a SCSI disk to MODE SENSE (6).
pub fn mode_sense(is_on: bool, device_specific: u8) -> Vec<u8> {
    let mut data = vec![
        0x17,
        0,
        device_specific,
        0,
        0x08,
        0x12,
        u8::from(is_on) << 2,
    ];
    data.resize(24, 0);
    data
}
