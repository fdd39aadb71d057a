use crate::Machine;

/// Asks the system what computer this is.
pub fn machine() -> Machine {
    let name = rustix::system::uname();
    let architecture = name.machine().to_string_lossy().into_owned();
    Machine::of("macOS".to_owned(), kernel(), architecture)
}

/// Release of the running kernel, which is Darwin's: 23.1.0 is that of macOS 14.1.
pub fn kernel() -> String {
    let name = rustix::system::uname();
    name.release().to_string_lossy().into_owned()
}
