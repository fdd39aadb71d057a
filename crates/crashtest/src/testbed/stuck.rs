//! Mounts of xfs that would hang: makes them fail.
//!
//! xfs retries failed writes of metadata forever. If the power is cut while a mount replays the log, the mount waits in
//! the kernel for writes that can only fail, and no signal ends it. The suite would hang and leave the loop device
//! behind.

use super::Filesystem;
use std::fs;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Duration after which a mount counts as stuck. The mount of a working disk is faster. A mount that is only slow loses
/// nothing, because xfs retries only writes that failed.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Runs `mount`, which mounts the device. If xfs takes longer than `TIMEOUT`, sets it not to retry failed writes.
pub fn freed<T>(filesystem: Filesystem, device: &Path, mount: impl FnOnce() -> T) -> T {
    if filesystem != Filesystem::Xfs {
        return mount();
    }
    std::thread::scope(|scope| {
        let (mounting, ended) = channel::<()>();
        scope.spawn(move || {
            // Repeated, because the power cut may come after the first time.
            while ended.recv_timeout(TIMEOUT) == Err(RecvTimeoutError::Timeout) {
                try_no_more(device, Path::new("/sys/fs/xfs"));
            }
        });
        let done = mount();
        drop(mounting);
        done
    })
}

/// Sets the number of retries to 0 for each kind of error. `known` is the directory in which the kernel lists mounted
/// xfs filesystems. Ignores errors, because the mount may have ended just now.
fn try_no_more(device: &Path, known: &Path) {
    let Some(name) = device.file_name() else {
        return;
    };
    let errors = known.join(name).join("error/metadata");
    for kind in fs::read_dir(errors).into_iter().flatten().flatten() {
        let _ = fs::write(kind.path().join("max_retries"), "0");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_error_of_that_device_is_told() {
        let temp = tempfile::tempdir().unwrap();
        let file = |device: &str, kind: &str| {
            let dir = temp.path().join(device).join("error/metadata").join(kind);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("max_retries"), "-1").unwrap();
            dir.join("max_retries")
        };
        let ours = ["EIO", "ENOSPC", "default"].map(|kind| file("loop1", kind));
        let other = file("loop11", "EIO");
        try_no_more(Path::new("/dev/loop1"), temp.path());
        for file in ours {
            assert_eq!(fs::read_to_string(file).unwrap(), "0");
        }
        assert_eq!(fs::read_to_string(other).unwrap(), "-1");
        try_no_more(Path::new("/dev/loop7"), temp.path());
    }
}
