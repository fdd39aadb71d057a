//! A server of the S3 protocol for tests: in memory, on 127.0.0.1, with faults on request.
//!
//! A put with `If-None-Match: *` is one step under a lock, so a conditional create is true. Signatures are
//! not checked. [`Fault`] lists the faults. A test can also freeze or stop the server and change its
//! objects.

mod bucket;
mod faults;
mod http;
mod serve;

pub use faults::{Fault, Faults};

use bucket::{Bucket, Kept};
use faults::Dice;
use http::Response;
use serve::Shared;
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Name of the only bucket.
pub const BUCKET: &str = "test";

/// Settings of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Time that each put takes.
    pub put_latency: Duration,
    /// False for a store that ignores `If-None-Match`, and so replaces.
    pub has_conditional_create: bool,
    /// False for a store that does not copy objects itself.
    pub can_copy: bool,
    /// Largest number of names in one answer to a listing.
    pub page_len: usize,
    /// Faults by chance.
    pub faults: Faults,
}

impl Default for Options {
    /// Returns a server without latency and faults.
    fn default() -> Options {
        Options {
            put_latency: Duration::ZERO,
            has_conditional_create: true,
            can_copy: true,
            page_len: 1000,
            faults: Faults::default(),
        }
    }
}

/// Running server. It ends with this value.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    listener: Mutex<Option<JoinHandle<()>>>,
}

impl Server {
    /// Starts a server at a free port.
    pub fn start(options: Options) -> io::Result<Server> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let shared = Shared {
            bucket: Mutex::new(Bucket {
                name: BUCKET.to_owned(),
                objects: BTreeMap::new(),
                kept: Kept::No,
                has_conditional_create: options.has_conditional_create,
                can_copy: options.can_copy,
                page_len: options.page_len,
            }),
            dice: Mutex::new(Dice::new(options.faults)),
            put_latency: options.put_latency,
            refusal: Mutex::default(),
            counts: Mutex::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
        };
        let server = Server {
            address: listener.local_addr()?,
            shared: Arc::new(shared),
            listener: Mutex::default(),
        };
        server.listen(listener);
        Ok(server)
    }

    /// Returns the address, such as `http://127.0.0.1:4711`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the variables with which a process finds this server.
    pub fn environment(&self) -> [(&'static str, String); 5] {
        [
            ("AWS_ENDPOINT", self.endpoint()),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_ACCESS_KEY_ID", "test".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
            ("AWS_REGION", "test".to_owned()),
        ]
    }

    /// Sets the faults by chance.
    pub fn set_faults(&self, faults: Faults) {
        *lock(&self.shared.dice) = Dice::new(faults);
    }

    /// Sets the fault of a request to come. Several calls are for several requests, in order.
    pub fn fault_next(&self, fault: Fault) {
        lock(&self.shared.dice).push(fault);
    }

    /// Answers all requests with this status and code of S3, and does none; `None` ends that.
    pub fn refuse(&self, status_and_code: Option<(u16, &str)>) {
        let refusal = status_and_code.map(|(status, code)| Response::error(status, code));
        *lock(&self.shared.refusal) = refusal;
    }

    /// Lets requests wait until [`thaw`](Self::thaw).
    pub fn freeze(&self) {
        self.shared.set(|state| state.is_frozen = true);
    }

    /// Continues after [`freeze`](Self::freeze).
    pub fn thaw(&self) {
        self.shared.set(|state| state.is_frozen = false);
    }

    /// Ends all connections and refuses new ones. The objects stay.
    pub fn stop(&self) {
        self.shared.end_connections();
        // Wakes the listener, which then ends.
        let _ = std::net::TcpStream::connect(self.address);
        if let Some(listener) = lock(&self.listener).take() {
            let _ = listener.join();
        }
    }

    /// Starts again after [`stop`](Self::stop), at the same address.
    pub fn start_again(&self) -> io::Result<()> {
        let listener = TcpListener::bind(self.address)?;
        self.shared.set(|state| state.is_stopped = false);
        self.listen(listener);
        Ok(())
    }

    /// Returns the number of requests by method and of faults by name.
    pub fn counts(&self) -> BTreeMap<String, usize> {
        lock(&self.shared.counts).clone()
    }

    /// Gives access to the objects, to look at, damage, swap or delete them.
    pub fn with_objects<T>(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, Arc<Vec<u8>>>) -> T,
    ) -> T {
        change(&mut lock(&self.shared.bucket).objects)
    }

    /// Copies the objects after this number of further deletions.
    pub fn keep_after(&self, deletions: u32) {
        lock(&self.shared.bucket).kept = Kept::After(deletions);
    }

    /// Returns the copy that [`keep_after`](Self::keep_after) has made; `None` if there were fewer deletions.
    pub fn kept(&self) -> Option<BTreeMap<String, Arc<Vec<u8>>>> {
        match std::mem::replace(&mut lock(&self.shared.bucket).kept, Kept::No) {
            Kept::Yes(objects) => Some(objects),
            _ => None,
        }
    }

    fn listen(&self, listener: TcpListener) {
        let shared = self.shared.clone();
        let thread = std::thread::spawn(move || serve::listen(&shared, &listener));
        *lock(&self.listener) = Some(thread);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
