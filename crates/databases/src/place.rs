//! Where databases are made.

use logforce_device::Facts;
use logforce_measure::Interrupt;
use std::path::PathBuf;

/// What is needed from outside.
#[derive(Clone)]
pub struct Place {
    /// An empty directory on the disk to measure.
    pub path: PathBuf,
    /// What the system tells of it.
    pub facts: Facts,
    /// The flag that ends everything.
    pub interrupt: Interrupt,
    /// The most clients that are connected at the same time.
    pub clients: u32,
}
