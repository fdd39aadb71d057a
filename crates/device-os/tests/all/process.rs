//! Checks that a process is running.

use crate::common::{again, in_second_process};
use logforce_device_os::is_running;
use logforce_testkit::process::Start;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;

const WAITER: &str = "LOGFORCE_TEST_WAITER";

#[test]
fn a_process_is_there_until_it_ends() {
    if in_second_process(WAITER).is_some() {
        // Waits until it is killed.
        let _ = std::io::stdin().read(&mut [0]);
        return;
    }
    assert!(is_running(std::process::id()));
    let name = "a_process_is_there_until_it_ends";
    let mut child = again(name, WAITER, Path::new("yes"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .start()
        .unwrap();
    let pid = child.id();
    assert!(is_running(pid));
    child.kill().unwrap();
    child.wait().unwrap();
    // Also while its number is still in use: `child` still has it open.
    assert!(!is_running(pid));
    // Numbers that no system uses.
    assert!(!is_running(u32::MAX - 1));
}
