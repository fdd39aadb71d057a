//! Device and filesystem controls. Each may fail, as all of those used here do under Wine.

#![allow(unsafe_code)]

use std::io;
use std::os::windows::io::{AsRawHandle, OwnedHandle};
use std::ptr;
use windows_sys::Win32::System::IO::DeviceIoControl;
use windows_sys::Win32::System::Ioctl::{
    FILE_REGION_INPUT, FILE_REGION_OUTPUT, FILE_REGION_USAGE_VALID_CACHED_DATA,
    FSCTL_QUERY_FILE_REGIONS,
};

/// Sends a control, and returns the answer, truncated to its length. The handle must be a synchronous one.
pub fn send(handle: &OwnedHandle, code: u32, input: &[u8], longest: usize) -> io::Result<Vec<u8>> {
    // The answers are structures with the alignment of u64.
    let mut answer = vec![0u64; longest.div_ceil(8)];
    let mut len = 0;
    // SAFETY: the handle is open and synchronous, so the call returns when all is done; both buffers live
    // through it and have the lengths that are given.
    let ok = unsafe {
        DeviceIoControl(
            handle.as_raw_handle(),
            code,
            input.as_ptr().cast(),
            input.len() as u32,
            answer.as_mut_ptr().cast(),
            size_of_val(answer.as_slice()) as u32,
            &mut len,
            ptr::null_mut(),
        )
    };
    if ok == 0 {
        return Err(io::Error::last_os_error());
    }
    let bytes = answer.into_iter().flat_map(u64::to_ne_bytes);
    Ok(bytes.take(len as usize).collect())
}

/// Returns the end of the data in the file: its *valid data length*. `None` if the system does not report it.
/// The handle must be a synchronous one.
pub fn valid_data_length(handle: &OwnedHandle) -> Option<u64> {
    let question: Vec<u8> = [0i64.to_ne_bytes(), i64::MAX.to_ne_bytes()]
        .into_iter()
        .flatten()
        .chain(FILE_REGION_USAGE_VALID_CACHED_DATA.to_ne_bytes())
        .chain([0; 4])
        .collect();
    debug_assert_eq!(question.len(), size_of::<FILE_REGION_INPUT>());
    let longest = size_of::<FILE_REGION_OUTPUT>();
    let answer = send(handle, FSCTL_QUERY_FILE_REGIONS, &question, longest).ok()?;
    super::storage::first_region(&answer)
}
