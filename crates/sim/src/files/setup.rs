//! Random setup of a run: the options of each opening.

use logforce_commit::file::{Error, File, Options};
use logforce_device::{Method, System};
use logforce_testkit::Rng;
use std::path::Path;

/// Directory of the file.
pub const DIR: &str = "/files";
/// Name of the file.
pub const NAME: &str = "slots";

/// Options of one opening.
#[derive(Debug, Clone)]
pub struct Setup {
    /// True if all writes are aligned.
    pub aligned: bool,
    /// Method that is named; `None` for the default.
    pub method: Option<Method>,
    /// True if the file is locked.
    pub lock: bool,
    /// Number of forces in flight before anything is measured.
    pub in_flight_at_first: Option<usize>,
}

impl Setup {
    /// Draws the options.
    pub fn random(rng: &mut Rng, aligned: bool) -> Setup {
        Setup {
            aligned,
            method: rng.one_in(2).then(|| rng.pick(&Method::LINUX)),
            lock: rng.one_in(3),
            in_flight_at_first: rng.pick(&[None, Some(0), Some(1), Some(4)]),
        }
    }

    /// Opens the file.
    pub fn open(&self, system: &dyn System, is_new: bool) -> Result<File, Error> {
        let mut options = Options::new()
            .create(!is_new)
            .create_new(is_new)
            .aligned(self.aligned)
            .lock(self.lock);
        if let Some(method) = self.method {
            options = options.method(method);
        }
        if let Some(forces) = self.in_flight_at_first {
            options = options.in_flight_at_first(forces);
        }
        options.open(system, &Path::new(DIR).join(NAME))
    }
}
