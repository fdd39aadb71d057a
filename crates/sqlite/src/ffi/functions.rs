//! Functions in SQL: `logforce_durability`, `logforce_stats` and `logforce_vfs_in_use`.

use super::api::{Api, SqlFunction, api};
use super::c::*;
use super::file::connection_of;
use crate::connection::Connection;
use crate::durability::{self, Settings};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

/// Adds the functions to a connection.
///
/// # Errors
/// The result code of SQLite.
///
/// # Safety
/// `db` must be an open connection.
pub unsafe fn add(db: *mut sqlite3) -> Result<(), c_int> {
    let Some(api) = api() else {
        return Err(MISUSE);
    };
    let functions: [(&CStr, c_int, SqlFunction); 6] = [
        (c"logforce_durability", 0, durability),
        (c"logforce_durability", 1, durability),
        (c"logforce_stats", 0, stats),
        (c"logforce_stats", 1, stats),
        (c"logforce_vfs_in_use", 0, vfs_in_use),
        (c"logforce_vfs_in_use", 1, vfs_in_use),
    ];
    let null = std::ptr::null;
    for (name, arguments, function) in functions {
        // SAFETY: the connection is open, and the functions have no data and no destructor.
        let rc = unsafe {
            (api.create_function_v2)(
                db,
                name.as_ptr(),
                arguments,
                UTF8,
                std::ptr::null_mut(),
                Some(function),
                null(),
                null(),
                null(),
            )
        };
        if rc != OK {
            return Err(rc);
        }
    }
    Ok(())
}

/// A call of a function: its connection, and the schema that it asks for.
struct Call<'a> {
    api: &'a Api,
    db: *mut sqlite3,
    schema: CString,
}

/// Value of a function.
enum Value {
    Text(String),
    Number(c_int),
}

/// Answers a call with the value or the error of `answer`.
///
/// # Safety
/// The arguments must be those of a function that SQLite calls.
unsafe fn answer(
    context: *mut sqlite3_context,
    count: c_int,
    values: *mut *mut sqlite3_value,
    answer: impl FnOnce(&Call<'_>) -> Result<Value, String>,
) {
    let Some(api) = api() else {
        return;
    };
    // SAFETY: the caller's contract.
    let call = unsafe {
        let text = match count {
            0 => std::ptr::null(),
            _ => (api.value_text)(*values),
        };
        Call {
            api,
            db: (api.context_db_handle)(context),
            schema: match text.is_null() {
                true => c"main".to_owned(),
                false => CStr::from_ptr(text).to_owned(),
            },
        }
    };
    let answered = catch_unwind(AssertUnwindSafe(|| answer(&call)));
    let answered = answered.unwrap_or_else(|_| Err("internal error".to_owned()));
    // SAFETY: SQLite copies the texts, whose lengths are given.
    unsafe {
        match answered {
            Ok(Value::Number(number)) => (api.result_int)(context, number),
            Ok(Value::Text(text)) => {
                let len = c_int::try_from(text.len()).unwrap_or(0);
                (api.result_text)(context, text.as_ptr().cast(), len, TRANSIENT);
            }
            Err(message) => {
                let len = c_int::try_from(message.len()).unwrap_or(0);
                (api.result_error)(context, message.as_ptr().cast(), len);
            }
        }
    }
}

impl Call<'_> {
    /// Returns the connection's file if this VFS has opened it.
    fn connection(&self) -> Result<Option<Arc<Connection>>, String> {
        let mut file: *mut sqlite3_file = std::ptr::null_mut();
        let rc = self.control(FCNTL_FILE_POINTER, (&raw mut file).cast());
        if rc != OK {
            return Err(format!(
                "there is no database {:?} on this connection",
                self.schema
            ));
        }
        // SAFETY: SQLite has returned the file.
        Ok(unsafe { connection_of(file) })
    }

    fn control(&self, operation: c_int, argument: *mut c_void) -> c_int {
        // SAFETY: the connection is open; the argument is one of the operation.
        unsafe { (self.api.file_control)(self.db, self.schema.as_ptr(), operation, argument) }
    }

    /// Returns the names of the VFS and of those below it; empty for a database in memory.
    fn vfs(&self) -> String {
        let mut name: *mut c_char = std::ptr::null_mut();
        let rc = self.control(FCNTL_VFSNAME, (&raw mut name).cast());
        if rc != OK || name.is_null() {
            return String::new();
        }
        // SAFETY: a text in SQLite's memory, which the caller frees.
        unsafe {
            let text = CStr::from_ptr(name).to_string_lossy().into_owned();
            (self.api.free)(name.cast());
            text
        }
    }

    /// Returns the path of the database; `None` if it has no file.
    fn path(&self) -> Option<PathBuf> {
        // Databases of SQLite's VFS for memory have names, and no files.
        if self.vfs() == "memdb" {
            return None;
        }
        // SAFETY: the connection is open.
        let name = unsafe { (self.api.db_filename)(self.db, self.schema.as_ptr()) };
        // SAFETY: a text that lives as long as the database.
        (!name.is_null())
            .then(|| unsafe { super::memory::path(name) })?
            .filter(|p| !p.as_os_str().is_empty())
    }

    /// Returns the value of a pragma.
    fn pragma(&self, name: &str) -> Result<String, String> {
        let schema = self.schema.to_string_lossy().replace('"', "\"\"");
        let sql = CString::new(format!("PRAGMA \"{schema}\".{name}")).map_err(|e| e.to_string())?;
        let mut statement = std::ptr::null_mut();
        // SAFETY: the connection is open, and in use by this thread.
        unsafe {
            let rc = (self.api.prepare_v2)(
                self.db,
                sql.as_ptr(),
                -1,
                &raw mut statement,
                std::ptr::null_mut(),
            );
            if rc != OK {
                return Err(format!("cannot read PRAGMA {name}: error {rc}"));
            }
            let value = match (self.api.step)(statement) {
                ROW => {
                    let text = (self.api.column_text)(statement, 0);
                    match text.is_null() {
                        true => Err(format!("PRAGMA {name} has no value")),
                        false => Ok(CStr::from_ptr(text.cast()).to_string_lossy().into_owned()),
                    }
                }
                rc => Err(format!("cannot read PRAGMA {name}: error {rc}")),
            };
            (self.api.finalize)(statement);
            value
        }
    }
}

unsafe extern "C" fn durability(
    context: *mut sqlite3_context,
    count: c_int,
    values: *mut *mut sqlite3_value,
) {
    // SAFETY: SQLite calls the function.
    unsafe {
        answer(context, count, values, |call| {
            let own = call.connection()?;
            if let Some(reason) = own.as_ref().and_then(|c| c.failure()) {
                return Ok(Value::Text(durability::failed(reason)));
            }
            let settings = Settings {
                vfs: call.vfs(),
                path: call.path(),
                journal_mode: call.pragma("journal_mode")?,
                synchronous: call.pragma("synchronous")?,
                full_fsync: call.pragma("fullfsync")? == "1",
                own,
            };
            durability::answer(&settings).map(Value::Text)
        });
    }
}

unsafe extern "C" fn stats(
    context: *mut sqlite3_context,
    count: c_int,
    values: *mut *mut sqlite3_value,
) {
    // SAFETY: SQLite calls the function.
    unsafe {
        answer(context, count, values, |call| match call.connection()? {
            Some(connection) => Ok(Value::Text(
                connection
                    .stats
                    .json(connection.path(), connection.log_syncs()),
            )),
            None => Err(not_in_use(call)),
        });
    }
}

unsafe extern "C" fn vfs_in_use(
    context: *mut sqlite3_context,
    count: c_int,
    values: *mut *mut sqlite3_value,
) {
    // SAFETY: SQLite calls the function.
    unsafe {
        answer(context, count, values, |call| match call.connection()? {
            Some(_) => Ok(Value::Number(1)),
            None => Err(not_in_use(call)),
        });
    }
}

fn not_in_use(call: &Call<'_>) -> String {
    let schema = call.schema.to_string_lossy();
    match call.vfs() {
        none if none.is_empty() => {
            format!("{schema} has no file: it is in memory, so no VFS is in use")
        }
        other => format!(
            "{schema} was opened by the VFS {other}, not by logforce. A VFS is chosen when a database is opened: \
             load the extension first, then open the file with vfs=logforce (file:NAME?vfs=logforce), or load it \
             by sqlite3_logforcesqlite_default_init"
        ),
    }
}
