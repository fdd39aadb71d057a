//! Setup of a database for the measurement.

use logforce_device::Facts;
use logforce_measure::Interrupt;
use std::path::PathBuf;

/// The directory of a database, and the limits of its measurement.
#[derive(Clone)]
pub struct DatabaseSetup {
    /// An empty directory on the disk to measure.
    pub path: PathBuf,
    /// Facts about the disk and the filesystem.
    pub facts: Facts,
    /// Interrupt that ends the measurement.
    pub interrupt: Interrupt,
    /// Largest number of clients connected at the same time.
    pub clients: u32,
}
