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
        path: "crates/device-os/src/windows/overlapped.rs",
        why: "Windows' own calls, with buffers that the kernel holds while a write is in flight",
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
