//! Retries for lack of descriptors, in the directory of a log in an environment. If the process has no
//! descriptor left, idle logs close their files and the call is repeated. Otherwise a commit that has to
//! open its segment would poison its log, although the call would have succeeded a moment later.

use crate::environment::fd_budget::FdBudget;
use logforce_device::failure::os_number;
use logforce_device::sync::AtomicU32;
use logforce_device::{
    DirEntry, Directory, Facts, File, FileIdentity, ForwardDirectory, ForwardFile, OpenFile,
    ReadSource, Runtime, Whereabouts, WriteQueue,
};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of attempts at a call.
const ATTEMPTS: usize = 200;
/// Pause between two attempts if no log could close its files, because all are being written.
const PAUSE: Duration = Duration::from_millis(5);

/// Returns true for `ENFILE` and `EMFILE`; on Windows for `ERROR_TOO_MANY_OPEN_FILES`.
fn lacks_descriptors(e: &io::Error) -> bool {
    let numbers: &[i32] = if cfg!(windows) { &[4] } else { &[23, 24] };
    os_number(e).is_some_and(|number| numbers.contains(&number))
}

struct RetryingDirectory {
    inner: Arc<dyn Directory>,
    retries: Arc<Retries>,
}

struct RetryingFile {
    inner: Arc<dyn File>,
    retries: Arc<Retries>,
}

/// Means of a retry.
struct Retries {
    fd_budget: Arc<FdBudget>,
    runtime: Arc<dyn Runtime>,
}

/// Returns a directory that repeats calls while the process has no descriptor for them.
pub(crate) fn retrying(
    inner: Arc<dyn Directory>,
    fd_budget: Arc<FdBudget>,
    runtime: Arc<dyn Runtime>,
) -> Arc<dyn Directory> {
    let retries = Arc::new(Retries { fd_budget, runtime });
    Arc::new(RetryingDirectory { inner, retries })
}

/// Makes the call, and repeats it while the process has no descriptor for it, for about a second.
pub(crate) fn retry<T>(
    fd_budget: &FdBudget,
    runtime: &dyn Runtime,
    mut call: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    for _ in 1..ATTEMPTS {
        match call() {
            Err(e) if lacks_descriptors(&e) => {}
            answer => return answer,
        }
        if !fd_budget.close_idle() {
            runtime.wait(&AtomicU32::new(0), 0, Some(PAUSE));
        }
    }
    call()
}

impl Retries {
    fn call<T>(&self, mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        retry(&self.fd_budget, &*self.runtime, &mut call)
    }
}

impl ForwardDirectory for RetryingDirectory {
    fn inner(&self) -> &dyn Directory {
        &*self.inner
    }

    fn open(&self, name: &str, how: OpenFile) -> io::Result<Arc<dyn File>> {
        let inner = self.retries.call(|| self.inner.open(name, how))?;
        let retries = self.retries.clone();
        Ok(Arc::new(RetryingFile { inner, retries }))
    }

    fn entries(&self) -> io::Result<Vec<DirEntry>> {
        self.retries.call(|| self.inner.entries())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.retries.call(|| self.inner.rename(from, to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.retries.call(|| self.inner.remove(name))
    }

    fn sync(&self) -> io::Result<()> {
        self.retries.call(|| self.inner.sync())
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn Send + Sync>> {
        self.retries.call(|| self.inner.lock(name))
    }

    fn lock_file(&self, name: &str) -> io::Result<Box<dyn Send + Sync>> {
        self.retries.call(|| self.inner.lock_file(name))
    }

    fn facts(&self) -> io::Result<Facts> {
        self.retries.call(|| self.inner.facts())
    }

    fn facts_for_writing(&self) -> io::Result<Facts> {
        self.retries.call(|| self.inner.facts_for_writing())
    }

    fn free_space(&self) -> io::Result<u64> {
        self.retries.call(|| self.inner.free_space())
    }

    fn whereabouts(&self) -> io::Result<Whereabouts> {
        self.retries.call(|| self.inner.whereabouts())
    }

    fn identity_of(&self, name: &str) -> io::Result<FileIdentity> {
        self.retries.call(|| self.inner.identity_of(name))
    }
}

impl ForwardFile for RetryingFile {
    fn inner(&self) -> &dyn File {
        &*self.inner
    }

    /// Reads. The first read past the cache opens another descriptor.
    fn read_at(&self, offset: u64, buf: &mut [u8], source: ReadSource) -> io::Result<usize> {
        (self.retries).call(|| self.inner.read_at(offset, buf, source))
    }

    fn write_queue(self: Arc<Self>, depth: usize) -> Option<Box<dyn WriteQueue>> {
        self.inner.clone().write_queue(depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lack_of_descriptors_is_waited_for() {
        let of = |number| lacks_descriptors(&io::Error::from_raw_os_error(number));
        assert!(of(if cfg!(windows) { 4 } else { 24 }));
        assert!(!of(28) && !of(2));
        assert!(!lacks_descriptors(&io::ErrorKind::Other.into()));
    }
}
