//! A simulated disk whose operations take time.
#![allow(dead_code)]

use logforce_device::{
    Barrier, Directory, File, ForwardDirectory, ForwardFile, Method, OpenFile, Ticket, Write,
};
use logforce_testkit::{Rng, SimDisk, SimRuntime};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Duration of operations.
#[derive(Debug, Clone, Copy)]
pub struct Costs {
    /// Duration of a write-through.
    pub through: Duration,
    /// Duration of a barrier.
    pub barrier: Duration,
    /// Duration of any write, for each MiB.
    pub mib: Duration,
    /// Maximum disturbance of each duration, as a fraction of it.
    pub noise: f64,
}

pub fn micros(n: u64) -> Duration {
    Duration::from_micros(n)
}

pub fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Equal costs: 90 µs by any method.
pub const EQUAL: Costs = Costs {
    through: Duration::from_micros(90),
    barrier: Duration::from_micros(90),
    mib: Duration::from_micros(500),
    noise: 0.3,
};

/// Makes the operations of a directory take time.
pub struct Slow {
    inner: Arc<dyn Directory>,
    clock: Clock,
}

#[derive(Clone)]
struct Clock {
    runtime: SimRuntime,
    costs: Costs,
    rng: Arc<Mutex<Rng>>,
}

impl Clock {
    fn pass(&self, time: Duration) {
        let part = self.rng.lock().unwrap().below(1000) as f64 / 1000.0;
        let disturbed = time.mul_f64(1.0 + self.costs.noise * part);
        if !disturbed.is_zero() {
            self.runtime.sleep(disturbed);
        }
    }
}

struct SlowFile {
    inner: Arc<dyn File>,
    clock: Clock,
}

/// Returns the directory `/log` of the disk, with these costs.
pub fn slow(disk: &SimDisk, runtime: &SimRuntime, costs: Costs) -> Arc<dyn Directory> {
    let inner = disk
        .system(runtime)
        .make_directory(Path::new("/log"))
        .unwrap();
    let clock = Clock {
        runtime: runtime.clone(),
        costs,
        rng: Arc::new(Mutex::new(Rng::new(7))),
    };
    Arc::new(Slow { inner, clock })
}

/// Returns the names in the directory.
pub fn names(dir: &Arc<dyn Directory>) -> Vec<String> {
    dir.entries().unwrap().into_iter().map(|e| e.name).collect()
}

/// All methods that can be compared, the default first.
pub const ALL: [Method; 4] = [
    Method::DirectDsync,
    Method::DirectFdatasync,
    Method::Dsync,
    Method::Fdatasync,
];

impl ForwardDirectory for Slow {
    fn inner(&self) -> &dyn Directory {
        &*self.inner
    }

    fn open(&self, name: &str, how: OpenFile) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(SlowFile {
            inner: self.inner.open(name, how)?,
            clock: self.clock.clone(),
        }))
    }
}

impl ForwardFile for SlowFile {
    fn inner(&self) -> &dyn File {
        &*self.inner
    }

    fn submit(&self, write: Write) -> Ticket {
        let costs = self.clock.costs;
        let mib = write.range.len() as f64 / f64::from(1 << 20);
        self.clock.pass(costs.mib.mul_f64(mib));
        if write.through {
            self.clock.pass(costs.through);
        }
        self.inner.submit(write)
    }
    fn barrier(&self, barrier: Barrier) -> io::Result<()> {
        self.clock.pass(self.clock.costs.barrier);
        self.inner.barrier(barrier)
    }
}
