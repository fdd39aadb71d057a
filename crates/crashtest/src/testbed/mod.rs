//! Simulation of a machine whose power can be cut: images in memory, a disk process, a loop device, and a real
//! filesystem. The [`enclosure`] leaves nothing of them behind.

mod disk;
pub mod enclosure;
mod filesystem;
mod image;
mod mounted;
pub mod needs;
mod process;
pub mod programs;
mod slow;
mod stuck;

pub use disk::{Powered, Switched};
pub use filesystem::Filesystem;
pub use image::Image;
pub use mounted::{Mounted, Unmountable, fresh};
pub use slow::SlowDisk;
