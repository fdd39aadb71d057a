//! Guarantee of a loop device, by the file in which it keeps its blocks.

use crate::common::loopfs::LoopFs;
use crate::common::on_each;
use logforce_device::{Assessment, FileState, Guarantee, Method, System, Verdict};
use logforce_device_os::OsSystem;

fn assess(fs: &LoopFs, method: Method) -> Assessment {
    let dir = OsSystem::new().directory(fs.path()).unwrap();
    let facts = dir.facts().unwrap();
    facts.assess(method, FileState::Zeroed).unwrap()
}

/// Returns the guarantee of a sync, with its evidence.
fn synced(fs: &LoopFs) -> (Guarantee, Verdict, String) {
    let a = assess(fs, Method::Fdatasync);
    (a.guarantee, a.verdict, a.evidence)
}

/// Makes the loop device write its file past the system's cache, or through it.
fn direct(fs: &LoopFs, is_on: bool) -> bool {
    let how = format!("--direct-io={}", if is_on { "on" } else { "off" });
    let out = std::process::Command::new("losetup")
        .arg(how)
        .arg(format!("/dev/{}", fs.device()))
        .output()
        .unwrap();
    if !out.status.success() {
        logforce_testkit::skip!("losetup: {}", String::from_utf8_lossy(&out.stderr));
    }
    out.status.success()
}

/// Tests a deleted image. Its inode disappears when the last process closes it, so a restart of the system
/// loses everything.
#[test]
fn a_deleted_image_keeps_nothing() {
    on_each(&[("ext4", 32)], |_, fs| {
        assert_eq!(
            assess(fs, Method::Fdatasync).guarantee,
            Guarantee::PowerLoss
        );
        std::fs::remove_file(fs.image()).unwrap();
        let (guarantee, verdict, why) = synced(fs);
        let expected = (Guarantee::ProcessCrash, Verdict::Contradicted);
        assert_eq!((guarantee, verdict), expected, "{why}");
        assert!(why.contains("the file was deleted"), "{why}");
        let direct = assess(fs, Method::Direct);
        assert_eq!(direct.guarantee, Guarantee::ProcessCrash, "{direct:?}");
    });
}

/// Tests that writes to a sparse file through the cache may fail after they were acknowledged, because blocks
/// are missing.
#[test]
fn a_sparse_image_through_the_cache_may_lose_writes_in_silence() {
    on_each(&[("ext4", 32), ("xfs", 320)], |_, fs| {
        if !direct(fs, false) {
            return;
        }
        let (guarantee, verdict, why) = synced(fs);
        let expected = (Guarantee::PowerLoss, Verdict::Unknown);
        assert_eq!((guarantee, verdict), expected, "{why}");
        for words in ["does not have all of its blocks", "--direct-io=on"] {
            assert!(why.contains(words), "{why}");
        }
        if direct(fs, true) {
            let (_, verdict, why) = synced(fs);
            assert_eq!(verdict, Verdict::Declared, "{why}");
        }
        // No write can fail for lack of space if every block exists.
        const FILL: &str =
            "cp --sparse=never \"$1\" \"$1.full\" && sync \"$1.full\" && mv \"$1.full\" \"$1\"";
        fs.change_image("sh", &["-c", FILL, "sh"]).unwrap();
        if direct(fs, false) {
            let (guarantee, verdict, why) = synced(fs);
            let expected = (Guarantee::PowerLoss, Verdict::Declared);
            assert_eq!((guarantee, verdict), expected, "{why}");
        }
    });
}
