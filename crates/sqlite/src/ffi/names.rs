//! Names of journals and logs, by which they belong to a connection.
//!
//! SQLite keeps the names of a database, of its parameters, its journal and its log in one piece of memory, in
//! this order. So a journal is known by the address of its name. A VFS above this one may use copies of the
//! names, which say nothing; their journals and logs are left to the VFS below.

use crate::connection::Connection;
use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Length of the ending `-journal` and its zero, bytes.
const JOURNAL: usize = 9;

/// Connections by the addresses of the names of their journals and logs.
static NAMES: Mutex<Option<HashMap<usize, Weak<Connection>>>> = Mutex::new(None);

/// Addresses of the names of a database's journal and log.
pub struct Names([usize; 2]);

impl Names {
    /// Finds the addresses. Reads only the name, and its parameters if it has any.
    ///
    /// # Safety
    /// `name` must be the name of a database that SQLite hands to `xOpen`. `has_parameters` must be false unless
    /// it was opened with `SQLITE_OPEN_URI`.
    pub unsafe fn of(name: *const c_char, has_parameters: bool) -> Names {
        // SAFETY: texts end with a zero, and a list of parameters ends with an empty one.
        unsafe {
            let length = CStr::from_ptr(name).count_bytes();
            let mut at = name.add(length + 1);
            while has_parameters && *at != 0 {
                at = at.add(CStr::from_ptr(at).count_bytes() + 1);
            }
            let journal = at.addr() + 1;
            Names([journal, journal + length + JOURNAL])
        }
    }

    /// Makes the names those of the connection.
    pub fn register(&self, connection: &Arc<Connection>) {
        for name in self.0 {
            names()
                .get_or_insert_default()
                .insert(name, Arc::downgrade(connection));
        }
    }

    /// Forgets the names: SQLite uses the memory for something else.
    pub fn forget(&self) {
        for name in self.0 {
            names().get_or_insert_default().remove(&name);
        }
    }

    /// Returns true if the database was opened by this VFS.
    pub fn are_own(&self) -> bool {
        names().get_or_insert_default().contains_key(&self.0[0])
    }

    /// Returns the connection whose journal has its name at this address. Its log is another matter: without the
    /// journal the log may be there.
    pub fn of_journal(name: *const c_char) -> Option<Arc<Connection>> {
        let connection = Names::at(name)?;
        // SAFETY: the address is the one of a name of this connection, which SQLite has handed over.
        let text = unsafe { CStr::from_ptr(name) };
        text.to_bytes().ends_with(b"-journal").then_some(connection)
    }

    /// Returns the connection to which SQLite's memory at this address belongs.
    fn at(name: *const c_char) -> Option<Arc<Connection>> {
        names().as_ref()?.get(&name.addr())?.upgrade()
    }

    /// Returns the connection of a journal or log with this path.
    pub fn connection(name: *const c_char, path: &Path) -> Option<Arc<Connection>> {
        let connection = Names::at(name)?;
        let text = path.as_os_str().as_encoded_bytes();
        let is_own = text.starts_with(connection.path().as_os_str().as_encoded_bytes());
        is_own.then_some(connection)
    }
}

fn names() -> MutexGuard<'static, Option<HashMap<usize, Weak<Connection>>>> {
    NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}
