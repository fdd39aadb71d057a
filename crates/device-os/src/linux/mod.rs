//! The Linux backend.
//!
//! - `directory`: durability of names; the rest is in `unix`. `file`: files, over `descriptors`. `direct`
//!   knows the requirements of direct I/O. `write_back` (unsafe) starts write-back by the kernel, and
//!   `page_cache` (unsafe) tells what is still to be written. `uring` (unsafe) keeps many writes in flight.
//! - `lock`, over `ofd` (unsafe): the call behind one writer per directory.
//! - `facts`, from `stack` and `volume`. `stack` is the filesystem and everything below it: `mounts`, the
//!   mount; `filesystem` and `zfs`, its meaning; `block`, the device below; `attachment`, its bus and maker;
//!   `cache`, its volatile cache; `layers`, its parts and so on down; `mapped`, mapped devices; `loop_file` and
//!   `extents` (unsafe), the file of a loop device; `overlay`, its upper directory. `volume` identifies the
//!   filesystem. All of them read by `sysfs`, which takes only "not found" for a missing file. `counters` reads
//!   the device's statistics.
//! - `ask`, over `commands` (unsafe): questions to the devices themselves, whose dated answers `answers` keeps.
//! - `runtime`, over `fork` (unsafe): futexes, random bits, and detection of a forked child.

mod answers;
mod ask;
mod attachment;
mod block;
mod cache;
mod commands;
mod counters;
mod descriptors;
mod direct;
pub mod directory;
mod extents;
pub mod facts;
pub mod file;
mod filesystem;
mod fork;
mod hypervisor;
mod layers;
pub mod lock;
mod loop_file;
mod mapped;
mod mounts;
mod ofd;
mod overlay;
mod page_cache;
pub mod runtime;
mod stack;
mod sysfs;
mod uring;
mod volume;
mod write_back;
mod zfs;

pub use crate::unix::error;
pub use crate::unix::mapping;
use crate::unix::{machine, transfer};

pub use ask::{ask_devices, device_facts};
pub use counters::{Counter, DeviceCounters, block_device_counters};
pub use extents::{FileExtent, extents};
pub use facts::of_file as file_facts;
pub use hypervisor::hypervisor;
pub use page_cache::dirty_pages;
pub use write_back::begin as start_write_back;
