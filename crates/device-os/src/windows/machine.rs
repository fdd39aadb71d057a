#![allow(unsafe_code)]

use crate::{Machine, ProcessTimes};
use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::sync::OnceLock;
use std::time::Duration;
use windows_sys::Wdk::System::SystemServices::RtlGetVersion;
use windows_sys::Win32::Foundation::{ERROR_INVALID_PARAMETER, FILETIME, WAIT_TIMEOUT};
use windows_sys::Win32::Storage::FileSystem::SYNCHRONIZE;
use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleW, GetProcAddress};
use windows_sys::Win32::System::SystemInformation::OSVERSIONINFOW;
use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, GetProcessTimes, OpenProcess, WaitForSingleObject,
};
use windows_sys::{s, w};

const WINE: &str = "This is Wine, which ignores the flags that matter here: TIMES MEASURED HERE MEAN NOTHING, neither for Windows nor beside each other.";

/// Asks the system for the description of this computer.
pub fn machine() -> Machine {
    let arch = std::env::consts::ARCH.to_owned();
    // Every process gets this variable from the system.
    let name = std::env::var("COMPUTERNAME").unwrap_or_default();
    if !is_wine() {
        return Machine::of(name, "Windows".to_owned(), kernel(), arch);
    }
    Machine {
        caveat: Some(WINE),
        ..Machine::of(name, "Windows (Wine)".to_owned(), kernel(), arch)
    }
}

/// Returns version and build, such as `10.0.19045`; empty if the system does not report them.
pub fn kernel() -> String {
    let mut version = OSVERSIONINFOW {
        dwOSVersionInfoSize: size_of::<OSVERSIONINFOW>() as u32,
        ..Default::default()
    };
    // SAFETY: the structure says its own size. Unlike GetVersionEx this does not depend on what the
    // program declares to be compatible with.
    if unsafe { RtlGetVersion(&mut version) } != 0 {
        return String::new();
    }
    format!(
        "{}.{}.{}",
        version.dwMajorVersion, version.dwMinorVersion, version.dwBuildNumber
    )
}

/// Returns true if this is Wine, which ignores flags that matter here.
pub fn is_wine() -> bool {
    static WINE: OnceLock<bool> = OnceLock::new();
    *WINE.get_or_init(|| {
        // SAFETY: ntdll is part of every process and is never unloaded; both names end in a NUL.
        unsafe { GetProcAddress(GetModuleHandleW(w!("ntdll.dll")), s!("wine_get_version")) }
            .is_some()
    })
}

/// Returns true if there is a process of that number that has not ended.
pub fn is_running(pid: u32) -> bool {
    // SAFETY: the call takes no memory of this process.
    let process = unsafe { OpenProcess(SYNCHRONIZE, 0, pid) };
    if process.is_null() {
        // Any other error means that the process exists, but may not be queried by this one.
        let no_such = Some(ERROR_INVALID_PARAMETER as i32);
        return io::Error::last_os_error().raw_os_error() != no_such;
    }
    // SAFETY: the call has just opened it, and nothing else owns it.
    let process = unsafe { OwnedHandle::from_raw_handle(process) };
    // It may have ended, and be kept by a process that has it open.
    // SAFETY: the handle is open, with the right to wait.
    unsafe { WaitForSingleObject(process.as_raw_handle(), 0) == WAIT_TIMEOUT }
}

/// Returns the processor time of this process; `None` if the system does not report it. It grows in steps of
/// the system's clock, usually 16 ms.
pub fn process_times() -> Option<ProcessTimes> {
    let [mut created, mut ended, mut system, mut user] = [FILETIME::default(); 4];
    // SAFETY: the pseudo handle of this process is always open; the pointers are to live locals.
    let ok = unsafe {
        GetProcessTimes(
            GetCurrentProcess(),
            &mut created,
            &mut ended,
            &mut system,
            &mut user,
        )
    };
    (ok != 0).then(|| ProcessTimes {
        user: duration(user),
        system: duration(system),
    })
}

/// Converts units of 100 ns.
fn duration(time: FILETIME) -> Duration {
    let units = u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime);
    Duration::from_nanos(units.saturating_mul(100))
}
