//! Output of the program of random runs for one run.

use std::process::Command;

#[test]
fn a_run_that_passes_is_one_line() {
    // The device panics twice in this run, and a power cut interrupts checks.
    let ran = Command::new(env!("CARGO_BIN_EXE_logforce-sim"))
        .args(["--seed", "7402"])
        .output()
        .expect("the program starts");
    assert_eq!(String::from_utf8_lossy(&ran.stderr), "");
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "seed 7402: passed\n");
    assert!(ran.status.success());
}
