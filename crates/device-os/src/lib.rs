//! The device contract of [`logforce_device`] on an operating system.
//!
//! On Linux [`OsSystem`] is the whole of it: directories, files that can be forced by every
//! method of [`logforce_device::Method::LINUX`], the writer's lock, the facts about filesystem
//! and device, threads, waiting and time. Beside it are [`machine`], which says what computer
//! this is, and [`Counter`], which reads the block device's own count of writes and flushes.
//!
//! On Windows there is only `windows::OverlappedFile`, which shows that the contract can be met
//! by overlapped writes. On other systems the crate is empty.
//!
//! This is the only crate of Logforce with `unsafe` code. Each module that has some says so with
//! its own `allow` and gives the argument beside each block.

#![deny(unsafe_code)]

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub use linux::{Counter, DeviceCounters, Machine, OsSystem, block_device_counters, machine};

#[cfg(windows)]
pub mod windows;
