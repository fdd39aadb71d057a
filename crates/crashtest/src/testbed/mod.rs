//! A machine whose plug can be pulled, without a machine: images in memory, a disk process, a loop
//! device, a real filesystem; and the enclosure that leaves nothing of them behind.

mod disk;
pub mod enclosure;
mod filesystem;
mod image;
mod mounted;
pub mod needs;
mod process;
mod slow;
mod stuck;

pub use disk::{Powered, Switched};
pub use filesystem::Filesystem;
pub use image::Image;
pub use mounted::{Mounted, Unmountable, fresh};
pub use slow::SlowDisk;
