//! Tests of the public API on the real operating system.
//!
//! All files are one program, because linking each separately took longer than running it.

#[cfg(any(target_os = "linux", target_os = "macos", windows))]
mod access;
mod accounts;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
mod asynchronous;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
mod backups;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
mod basics;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
mod calibration;
mod common;
#[cfg(target_os = "linux")]
mod counts;
mod cuts;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
mod damage;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
mod directories;
#[cfg(any(target_os = "linux", target_os = "macos"))]
mod displaced;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
mod examples;
#[cfg(target_os = "linux")]
mod file_size;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
mod files;
#[cfg(target_os = "linux")]
mod filesystems;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
mod follower_copies;
mod following;
#[cfg(target_os = "linux")]
mod full;
#[cfg(target_os = "linux")]
mod full_pages;
#[cfg(target_os = "linux")]
mod guarantees;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
mod guide;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
mod options;
mod orders;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
mod page_files;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
mod positions;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
mod reentrant;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
mod replicas;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
mod retain;
mod stores;
#[cfg(any(target_os = "linux", target_os = "macos"))]
mod taken_files;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
mod threads;
mod till;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
mod writers;
