//! The backend of this operating system.
//!
//! One program, because linking each file separately took longer than running it.

mod common;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
mod conformance;
#[cfg(target_os = "linux")]
mod directory;
#[cfg(target_os = "linux")]
mod facts;
#[cfg(target_os = "linux")]
mod file;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
mod lock;
#[cfg(target_os = "linux")]
mod loops;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
mod process;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
mod runtime;
#[cfg(windows)]
mod windows;
