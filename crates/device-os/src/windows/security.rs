//! Access rights of new files: the owner, the system and administrators, whatever the directory above would
//! hand down.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr;
use std::sync::OnceLock;
use windows_sys::Win32::Foundation::LocalFree;
use windows_sys::Win32::Security::Authorization::{
    ConvertSidToStringSidW, ConvertStringSecurityDescriptorToSecurityDescriptorW, SDDL_REVISION_1,
};
use windows_sys::Win32::Security::{
    GetTokenInformation, PSECURITY_DESCRIPTOR, SECURITY_ATTRIBUTES, TOKEN_QUERY, TOKEN_USER,
    TokenUser,
};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};

/// Security descriptor, kept for as long as the process runs.
#[derive(Debug)]
pub struct Owner(PSECURITY_DESCRIPTOR);

// SAFETY: the descriptor is never changed and never freed.
unsafe impl Send for Owner {}
// SAFETY: as above.
unsafe impl Sync for Owner {}

impl Owner {
    /// Returns the descriptor of files. `None` if the user cannot be determined: then the directory's rights
    /// are inherited.
    pub fn of_files() -> Option<&'static Owner> {
        static FILES: OnceLock<Option<Owner>> = OnceLock::new();
        FILES.get_or_init(|| describe("").ok()).as_ref()
    }

    /// Returns the descriptor of directories, which files of other programs in them inherit.
    pub fn of_directories() -> Option<&'static Owner> {
        static DIRECTORIES: OnceLock<Option<Owner>> = OnceLock::new();
        DIRECTORIES.get_or_init(|| describe("OICI").ok()).as_ref()
    }

    /// Returns the attributes for the calls. Started processes do not inherit the handle.
    pub fn attributes(&self) -> SECURITY_ATTRIBUTES {
        SECURITY_ATTRIBUTES {
            nLength: size_of::<SECURITY_ATTRIBUTES>() as u32,
            lpSecurityDescriptor: self.0,
            bInheritHandle: 0,
        }
    }
}

fn describe(inherit: &str) -> io::Result<Owner> {
    let user = user()?;
    let entry = |who: &str| format!("(A;{inherit};FA;;;{who})");
    // `P`: no rights are inherited from above.
    let text = format!("D:P{}{}{}", entry(&user), entry("SY"), entry("BA"));
    let wide: Vec<u16> = text.encode_utf16().chain([0]).collect();
    let mut descriptor: PSECURITY_DESCRIPTOR = ptr::null_mut();
    // SAFETY: the text ends in a NUL, the pointer is to a live local; the descriptor that is made is
    // never freed.
    let ok = unsafe {
        ConvertStringSecurityDescriptorToSecurityDescriptorW(
            wide.as_ptr(),
            SDDL_REVISION_1,
            &mut descriptor,
            ptr::null_mut(),
        )
    };
    if ok == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Owner(descriptor))
}

/// Returns the user of this process, as `S-1-5-…`.
fn user() -> io::Result<String> {
    let mut token = ptr::null_mut();
    // SAFETY: the pseudo handle of this process is always good; the pointer is to a live local.
    if unsafe { OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &mut token) } == 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: opened just now, and owned by nothing else.
    let token = unsafe { OwnedHandle::from_raw_handle(token) };
    // An array of u64, so that the structure is aligned; a SID is at most 68 bytes.
    let mut memory = [0u64; 32];
    let mut len = 0;
    // SAFETY: the token is open; the memory has the length that is passed.
    let ok = unsafe {
        GetTokenInformation(
            token.as_raw_handle(),
            TokenUser,
            memory.as_mut_ptr().cast::<c_void>(),
            size_of_val(&memory) as u32,
            &mut len,
        )
    };
    if ok == 0 {
        return Err(io::Error::last_os_error());
    }
    let mut text = ptr::null_mut();
    // SAFETY: the call has filled in the structure of this class, whose pointer leads into the
    // memory, which lives.
    let ok = unsafe {
        let user = &*memory.as_ptr().cast::<TOKEN_USER>();
        ConvertSidToStringSidW(user.User.Sid, &mut text)
    };
    if ok == 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has allocated the text and ended it with a NUL. The text is read up to the NUL, and
    // then freed once.
    unsafe {
        let len = (0..).take_while(|i| *text.add(*i) != 0).count();
        let owned = String::from_utf16_lossy(std::slice::from_raw_parts(text, len));
        LocalFree(text.cast());
        Ok(owned)
    }
}
