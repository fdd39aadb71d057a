//! Backends of [`logforce_device`] for operating systems.
//!
//! [`OsSystem`] is the entry point: directories, files that can be forced by every method of
//! [`logforce_device::Method::here`], the writer's lock, the facts about filesystem and device, threads,
//! waiting and time. [`machine`] describes this computer, and [`is_running`] checks a process. [`Counter`]
//! reads the block device's own counts of writes and flushes (Linux only; elsewhere it returns an error).
//! [`MappedFile`] and [`process_times`] are for measurements.
//!
//! Linux, Windows and macOS have a backend, one module each. Code that they share is beside them, and calls
//! the backend of this system by the name `os`. On other systems the crate is empty.
//!
//! This is the only crate of Logforce with `unsafe` code. Each module with `unsafe` code has its own `allow`,
//! and gives the argument beside each block.

// In a user's process an error is returned, never a panic.
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]
#![deny(unsafe_code)]

#[cfg(any(target_os = "linux", target_os = "macos", windows))]
mod asked;
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
#[cfg(any(target_os = "macos", windows))]
mod no_questions;
// Code without system calls is also compiled elsewhere, for its tests.
#[cfg(any(windows, target_os = "linux", test))]
#[cfg_attr(not(windows), allow(dead_code))]
mod nvme;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
mod runtime;
#[cfg(any(target_os = "linux", test))]
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
mod scsi;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
mod system;
#[cfg(any(target_os = "linux", target_os = "macos"))]
mod unix;
#[cfg(any(target_os = "macos", test))]
mod waiting;
// On other systems only the code without calls of Windows is compiled, for its tests.
#[cfg(any(windows, test))]
#[cfg_attr(not(windows), allow(dead_code))]
pub mod windows;

// Backend of this system, under the name that shared code uses.
#[cfg(target_os = "linux")]
use linux as os;
#[cfg(target_os = "macos")]
use macos as os;
#[cfg(windows)]
use windows as os;

#[cfg(any(target_os = "linux", target_os = "macos", windows))]
pub use asked::Asked;
#[cfg(target_os = "linux")]
pub use linux::{
    Counter, DeviceCounters, FileExtent, ask_devices, block_device_counters, device_facts,
    dirty_pages, extents, file_facts, hypervisor, start_write_back,
};
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
pub use machine::{Machine, ProcessTimes};
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
pub use mapped::MappedFile;
#[cfg(any(target_os = "macos", windows))]
pub use no_counters::{Counter, DeviceCounters, block_device_counters};
#[cfg(any(target_os = "macos", windows))]
pub use no_questions::{ask_devices, device_facts, file_facts, hypervisor};
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
pub use system::OsSystem;
#[cfg(any(target_os = "linux", target_os = "macos"))]
pub use unix::machine::{is_running, machine, process_times};
#[cfg(windows)]
pub use windows::{is_running, machine, process_times};
