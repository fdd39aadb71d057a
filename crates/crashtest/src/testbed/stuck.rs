//! Mounts that would never end.
//!
//! xfs writes metadata that failed again, without end. Where the power is cut while a mount replays
//! the log, the mount waits for writes that can only fail, in the kernel, and no signal ends it:
//! the suite would hang, and leave the loop device behind.

use super::Filesystem;
use std::fs;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Longer than a mount takes whose disk works. One that is only slow loses nothing: without an error
/// nothing is written again.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Runs `mount`, which mounts the device. If it takes long, xfs is set not to retry.
pub fn freed<T>(filesystem: Filesystem, device: &Path, mount: impl FnOnce() -> T) -> T {
    if filesystem != Filesystem::Xfs {
        return mount();
    }
    std::thread::scope(|scope| {
        let (mounting, ended) = channel::<()>();
        scope.spawn(move || {
            // Again and again: the cut may come later than the first time.
            while ended.recv_timeout(TIMEOUT) == Err(RecvTimeoutError::Timeout) {
                try_no_more(device, Path::new("/sys/fs/xfs"));
            }
        });
        let done = mount();
        drop(mounting);
        done
    })
}

/// For each kind of error; `known` is where the kernel shows its filesystems. What cannot be set
/// so is left as it is: the mount may have ended just now.
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
