use crate::Machine;

/// Asks the system what computer this is.
pub fn machine() -> Machine {
    let name = rustix::system::uname();
    let text = |c: &std::ffi::CStr| c.to_string_lossy().into_owned();
    Machine::of(text(name.sysname()), kernel(), text(name.machine()))
}

/// Release of the running kernel.
pub fn kernel() -> String {
    let name = rustix::system::uname();
    name.release().to_string_lossy().into_owned()
}
