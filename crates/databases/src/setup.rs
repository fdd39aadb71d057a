//! The setup that a database is measured with.

use logforce_device::Facts;
use logforce_measure::Interrupt;
use std::path::PathBuf;

/// The directory of a database, and the limits of its measurement.
#[derive(Clone)]
pub struct DatabaseSetup {
    /// An empty directory on the disk to measure.
    pub path: PathBuf,
    /// What the system tells of it.
    pub facts: Facts,
    /// The flag that ends everything.
    pub interrupt: Interrupt,
    /// The most clients that are connected at the same time.
    pub clients: u32,
}
