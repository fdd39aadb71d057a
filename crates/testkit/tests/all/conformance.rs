//! The simulated disk passes the conformance suite with any options.

use logforce_device::{Directory, File, ForwardDirectory, ForwardFile, OpenFile, Runtime, System};
use logforce_testkit::{SimDisk, SimOptions, SimRuntime, conformance};
use std::io;
use std::path::Path;
use std::sync::Arc;

#[test]
fn the_simulated_disk_conforms() {
    for seed in 0..100 {
        let options = SimOptions {
            zeroes: seed % 2 == 1,
            ..SimOptions::random(seed)
        };
        let disk = SimDisk::new(options, seed);
        SimRuntime::run(seed, |rt| {
            conformance::check(&*disk.system(rt), Path::new("/log"))
        });
    }
}

#[test]
fn it_conforms_after_a_reboot_and_with_limited_room() {
    for seed in 0..20 {
        let options = SimOptions {
            capacity: Some(1 << 20),
            ..SimOptions::random(seed)
        };
        let disk = SimDisk::new(options, seed);
        SimRuntime::run(seed, |rt| {
            conformance::check(&*disk.system(rt), Path::new("/one"))
        });
        disk.reboot(seed);
        SimRuntime::run(seed, |rt| {
            conformance::check(&*disk.system(rt), Path::new("/two"))
        });
    }
}

/// Wraps directories and files, and changes nothing.
struct Wrapped<T: ?Sized>(Arc<T>);

impl System for Wrapped<dyn System> {
    fn runtime(&self) -> Arc<dyn Runtime> {
        self.0.runtime()
    }
    fn directory(&self, path: &Path) -> io::Result<Arc<dyn Directory>> {
        Ok(Arc::new(Wrapped(self.0.directory(path)?)))
    }
    fn make_directory(&self, path: &Path) -> io::Result<Arc<dyn Directory>> {
        Ok(Arc::new(Wrapped(self.0.make_directory(path)?)))
    }
    fn remove_empty_directory(&self, path: &Path) -> io::Result<()> {
        self.0.remove_empty_directory(path)
    }
}

impl ForwardDirectory for Wrapped<dyn Directory> {
    fn inner(&self) -> &dyn Directory {
        &*self.0
    }
    fn open(&self, name: &str, how: OpenFile) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(Wrapped(self.0.open(name, how)?)))
    }
}

impl ForwardFile for Wrapped<dyn File> {
    fn inner(&self) -> &dyn File {
        &*self.0
    }
}

#[test]
fn what_passes_all_calls_on_conforms() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        conformance::check(&Wrapped(disk.system(rt)), Path::new("/log"))
    });
}
