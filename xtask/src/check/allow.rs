//! Where something banned may be all the same, and why.

/// An exception from a ban.
#[derive(Debug)]
pub struct Allowed {
    /// The ban's name.
    pub ban: &'static str,
    /// The file.
    pub path: &'static str,
    /// Why it is needed there.
    pub why: &'static str,
}

/// All exceptions. One that nothing needs any more is a violation itself.
pub const ALLOWED: &[Allowed] = &[
    Allowed {
        ban: "unsafe",
        path: "crates/device-os/src/linux/ofd.rs",
        why: "rustix has no locks of an open file description: fcntl by libc",
    },
    Allowed {
        ban: "unsafe",
        path: "crates/device-os/src/linux/fork.rs",
        why: "pthread_atfork tells the child of a fork that it is one",
    },
    Allowed {
        ban: "unsafe",
        path: "crates/device-os/src/windows/handle.rs",
        why: "opening, renaming and asking by Windows' own calls",
    },
    Allowed {
        ban: "unsafe",
        path: "crates/device-os/src/windows/overlapped.rs",
        why: "the system works on memory of ours after the call that gave it",
    },
    Allowed {
        ban: "unsafe",
        path: "crates/device-os/src/windows/overlapped/tests.rs",
        why: "pipes and early signals, without which nothing is pending under Wine",
    },
    Allowed {
        ban: "unsafe",
        path: "crates/device-os/src/windows/gather.rs",
        why: "says that its pages are whole, which the system reads unseen",
    },
    Allowed {
        ban: "unsafe",
        path: "crates/device-os/src/windows/flush.rs",
        why: "FlushFileBuffers, and NtFlushBuffersFileEx, which is looked up at run time",
    },
    Allowed {
        ban: "unsafe",
        path: "crates/device-os/src/windows/control.rs",
        why: "DeviceIoControl",
    },
    Allowed {
        ban: "unsafe",
        path: "crates/device-os/src/windows/security.rs",
        why: "a security descriptor is made of text and kept by pointer",
    },
    Allowed {
        ban: "unsafe",
        path: "crates/device-os/src/windows/lock.rs",
        why: "LockFileEx",
    },
    Allowed {
        ban: "unsafe",
        path: "crates/device-os/src/windows/runtime.rs",
        why: "WaitOnAddress, and the system's random bits",
    },
    Allowed {
        ban: "unsafe",
        path: "crates/device-os/src/windows/machine.rs",
        why: "the version, the page, and whether this is Wine",
    },
    Allowed {
        ban: "unsafe",
        path: "crates/device-os/src/windows/volume.rs",
        why: "what Windows tells of paths and volumes",
    },
    Allowed {
        ban: "unsafe",
        path: "crates/device-os/src/macos/calls.rs",
        why: "F_BARRIERFSYNC, F_PREALLOCATE and fgetattrlist, which rustix has not or has otherwise",
    },
    Allowed {
        ban: "unsafe",
        path: "crates/device-os/tests/fork.rs",
        why: "a test of what happens after fork has to fork",
    },
    Allowed {
        ban: "unsafe",
        path: "crates/logforce/tests/fork.rs",
        why: "the same of the whole log",
    },
];
