//! Distinguishes a process from the children it forks, on every commit, without a system call.
//!
//! A page of memory holds the process's number and is marked `MADV_WIPEONFORK`. The kernel gives a child that
//! page zeroed, however the process forked. (A counter bumped by `pthread_atfork` would miss a raw `clone` or
//! `fork` that runs none of libc's handlers.) A process that reads zero is a new one and gives itself a new
//! number. Only a child that shares the memory itself (`vfork`, `CLONE_VM`) cannot be distinguished; it *is*
//! the same memory.

#![allow(unsafe_code)]

use std::num::NonZeroU64;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Page with the number, or `None` if the kernel cannot wipe on fork (before 4.14).
static PAGE: OnceLock<Option<&'static AtomicU64>> = OnceLock::new();

/// Returns the number of this process: different in every forked child, and the same on every call in one
/// process. One load in the usual case.
pub fn process() -> u64 {
    let Some(word) = PAGE.get_or_init(map) else {
        // Without the page this is a system call each time, and a pid may be reused after 2^22 others.
        return rustix::process::getpid().as_raw_nonzero().get() as u64;
    };
    match word.load(Ordering::Relaxed) {
        0 => claim(word),
        id => id,
    }
}

/// Gives this process its number. If several threads get here at once, the number of the first one counts.
#[cold]
fn claim(word: &AtomicU64) -> u64 {
    let id = fresh().get();
    match word.compare_exchange(0, id, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => id,
        Err(other) => other,
    }
}

/// Makes a number that no related process has: the pid, which differs among living processes, above random
/// bits, which differ from those of ended processes.
fn fresh() -> NonZeroU64 {
    let pid = rustix::process::getpid().as_raw_nonzero().get() as u32;
    let id = u64::from(pid) << 32 | (crate::runtime::random() & 0xffff_ffff);
    NonZeroU64::new(id).unwrap_or(NonZeroU64::MIN)
}

fn map() -> Option<&'static AtomicU64> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
    let len = rustix::param::page_size();
    // SAFETY: a new private anonymous mapping at an address of the kernel's choice; it overlaps
    // no memory that Rust knows of.
    let page = unsafe {
        mmap_anonymous(
            std::ptr::null_mut(),
            len,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )
    }
    .ok()?;
    // SAFETY: the range is the mapping made above, whole. The advice changes nothing in this
    // process.
    if unsafe { madvise(page, len, Advice::LinuxWipeOnFork) }.is_err() {
        // SAFETY: the mapping made above, which nothing else has seen.
        let _ = unsafe { munmap(page, len) };
        return None;
    }
    // SAFETY: the mapping is at least 8 bytes, page-aligned, zeroed (a valid AtomicU64), and is
    // never unmapped from here on, so that it lives for 'static. In a child the kernel replaces
    // its content by zeroes before the child runs: again a valid value, and no thread of the
    // child can have been in the middle of an access.
    Some(unsafe { &*page.cast::<AtomicU64>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_stable_across_threads() {
        let here = process();
        assert_ne!(here, 0);
        assert_eq!(std::thread::spawn(process).join().unwrap(), here);
        assert_eq!(process(), here);
    }

    #[test]
    fn a_wiped_page_gives_another_number() {
        let word = AtomicU64::new(0);
        let id = claim(&word);
        assert_ne!(id, 0);
        assert_ne!(id, process());
        assert_eq!(word.load(Ordering::Relaxed), id);
        assert_eq!(claim(&word), id, "the first claim counts");
    }
}
