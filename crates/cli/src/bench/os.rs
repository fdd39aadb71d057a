//! Services of the operating system that the measurements use.

use logforce_device::System;
use logforce_measure::counters::{CounterSource, Reading};
use logforce_measure::machine::Host;
use logforce_measure::map::{CpuTimes, Mapping, Os};
use std::io;
use std::ops::Range;
use std::path::Path;

/// Returns the access to files and directories.
pub fn system() -> impl System {
    logforce_device_os::OsSystem::new()
}

/// Returns a description of this computer.
pub fn host() -> Host {
    let machine = logforce_device_os::machine();
    Host {
        name: machine.name,
        os: machine.system,
        kernel: machine.kernel,
        arch: machine.architecture,
        cpus: machine.cpus,
        caveat: machine.caveat.map(str::to_owned),
    }
}

/// Returns true if a process with this id exists.
pub fn is_running(pid: u32) -> bool {
    logforce_device_os::is_running(pid)
}

/// Returns the counters of the device below a path; the error says why there are none.
pub fn counters(path: &Path) -> io::Result<DeviceCounters> {
    logforce_device_os::Counter::of(path).map(DeviceCounters)
}

/// Returns the counters of the device of that kernel name.
pub fn device_counters(name: &str) -> io::Result<DeviceCounters> {
    logforce_device_os::Counter::of_device(name).map(DeviceCounters)
}

/// A device's counters, held open, so that a sample is one small read.
pub struct DeviceCounters(logforce_device_os::Counter);

impl CounterSource for DeviceCounters {
    fn read(&self) -> Option<Reading> {
        let counters = self.0.sample().ok()?;
        let bytes = counters.sectors_written * 512;
        Some(Reading {
            writes: counters.writes,
            bytes,
            flushes: counters.flushes,
        })
    }
}

/// Returns the functions that map files and that read the processor time.
pub fn mapping() -> Os {
    Os {
        map: |path, len| {
            let mapped = logforce_device_os::MappedFile::open(path, len)?;
            Ok(Box::new(Mapped(mapped)))
        },
        times: || {
            let times = logforce_device_os::process_times()?;
            Some(CpuTimes {
                user: times.user,
                system: times.system,
            })
        },
    }
}

struct Mapped(logforce_device_os::MappedFile);

impl Mapping for Mapped {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write(offset, bytes)
    }

    fn sync(&mut self, ranges: &[Range<u64>]) -> io::Result<()> {
        self.0.sync(ranges)
    }
}
