//! The device contract of [`logforce_device`] on an operating system.
//!
//! [`OsSystem`] is the whole of it: directories, files that can be forced by every method of
//! [`logforce_device::Method::here`], the writer's lock, the facts about filesystem and device,
//! threads, waiting and time. Beside it are [`machine`], which says what computer this is,
//! [`is_running`], and [`Counter`], which reads the block device's own count of writes and flushes
//! (Linux only: elsewhere it says that there is none). [`MappedFile`] and [`process_times`] are for
//! measurements.
//!
//! There are backends for Linux, Windows and macOS, a module each; what is the same on all of them is
//! beside them, and calls the one of this system by the name of `os`. On other systems the crate is
//! empty.
//!
//! This is the only crate of Logforce with `unsafe` code. Each module that has some says so with
//! its own `allow` and gives the argument beside each block.

// In a user's process an error is returned, never a panic.
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]
#![deny(unsafe_code)]

#[cfg(any(target_os = "macos", test))]
#[cfg_attr(not(target_os = "macos"), allow(dead_code))]
mod attributes;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
mod checks;
#[cfg(any(windows, target_os = "macos", test))]
#[cfg_attr(not(windows), allow(dead_code))]
mod extent;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
mod lock;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
mod machine;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
mod mapped;
#[cfg(any(target_os = "macos", windows))]
mod no_counters;
// What makes no call of a system, for its tests elsewhere too.
#[cfg(any(windows, test))]
#[cfg_attr(not(windows), allow(dead_code))]
mod nvme;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
mod runtime;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
mod system;
#[cfg(any(target_os = "linux", target_os = "macos"))]
mod unix;
#[cfg(any(target_os = "macos", test))]
mod waiting;
// Elsewhere only what makes no call of Windows, for its tests.
#[cfg(any(windows, test))]
#[cfg_attr(not(windows), allow(dead_code))]
pub mod windows;

// This system's backend, for what is the same over all of them.
#[cfg(target_os = "linux")]
use linux as os;
#[cfg(target_os = "macos")]
use macos as os;
#[cfg(windows)]
use windows as os;

#[cfg(target_os = "linux")]
pub use linux::{Counter, DeviceCounters, block_device_counters};
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
pub use machine::{Machine, ProcessTimes};
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
pub use mapped::MappedFile;
#[cfg(any(target_os = "macos", windows))]
pub use no_counters::{Counter, DeviceCounters, block_device_counters};
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
pub use system::OsSystem;
#[cfg(any(target_os = "linux", target_os = "macos"))]
pub use unix::machine::{is_running, machine, process_times};
#[cfg(windows)]
pub use windows::{is_running, machine, process_times};
