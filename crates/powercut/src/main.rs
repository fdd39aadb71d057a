//! `cargo xtask powercut`: see the library's documentation.

#![forbid(unsafe_code)]

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("skipped: real power cuts are Linux's: FUSE, loop devices, its filesystems");
}

#[cfg(target_os = "linux")]
mod command;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    command::main()
}
