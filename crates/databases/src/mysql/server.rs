//! A throw-away MariaDB.

use super::SYSTEM;
use crate::DatabaseSetup;
use crate::server::{Ending, Home, Programs, Running, run};
use logforce_measure::MeasureError;
use mysql::{Conn, Opts, OptsBuilder};
use rustix::process::Signal;
use std::cell::RefCell;
use std::path::PathBuf;

/// Message if MariaDB is not installed.
pub const INSTALL: &str = "MariaDB is not installed (mariadbd and mariadb-install-db are neither in the path \
     nor in /usr/sbin): apt-get install mariadb-server, dnf install mariadb-server, brew install mariadb.";

/// A server, which is restarted when other settings are needed.
pub struct Server {
    // Declared first: the server is stopped before its directory is removed.
    running: RefCell<Option<(Vec<String>, Running)>>,
    home: Home,
    program: PathBuf,
    place: DatabaseSetup,
}

impl Server {
    /// Creates the server's files; `None` if MariaDB is not installed.
    pub fn new(place: &DatabaseSetup) -> Result<Option<Server>, MeasureError> {
        let programs = Programs::in_path_and(&["/usr/sbin", "/usr/local/sbin", "/usr/libexec"]);
        let found = programs
            .find("mariadbd")
            .zip(programs.find("mariadb-install-db"));
        let Some((program, install)) = found else {
            return Ok(None);
        };
        let home = Home::new(&place.path, "mariadb", &["mysql"])?;
        let arguments = [
            "--no-defaults",
            &format!("--datadir={}", home.path().join("data").display()),
            // The server's user has no password: no other user can reach its socket.
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            "--skip-name-resolve",
        ];
        run(
            SYSTEM,
            &install,
            &arguments.map(str::to_owned),
            &home,
            Ending::Kill,
            &place.interrupt,
        )?;
        Ok(Some(Server {
            running: RefCell::new(None),
            home,
            program,
            place: place.clone(),
        }))
    }

    /// Returns the connection options.
    pub fn opts(&self) -> Opts {
        let socket = self.home.sockets().join("socket");
        OptsBuilder::new()
            .user(Some("root"))
            .socket(Some(socket.to_string_lossy()))
            .into()
    }

    /// Starts or restarts the server so that it runs with these arguments.
    pub fn ensure(&self, with: &[String]) -> Result<(), MeasureError> {
        let mut running = self.running.borrow_mut();
        if running
            .as_ref()
            .is_some_and(|(arguments, _)| arguments == with)
        {
            return Ok(());
        }
        if let Some((_, server)) = running.take() {
            server.stop(Signal::TERM, &self.home)?;
        }
        let path = self.home.path();
        let mut arguments = vec![
            "--no-defaults".to_owned(),
            format!("--datadir={}", path.join("data").display()),
            format!("--socket={}", self.home.sockets().join("socket").display()),
            format!("--pid-file={}", path.join("pid").display()),
            format!("--tmpdir={}", path.display()),
            format!("--max-connections={}", self.place.clients + 20),
            "--skip-networking".to_owned(),
            "--skip-name-resolve".to_owned(),
        ];
        arguments.extend_from_slice(with);
        let opts = self.opts();
        let server = Running::start(
            SYSTEM,
            &self.program,
            &arguments,
            &self.home,
            // The server keeps nothing outside its directory.
            Ending::Kill,
            &self.place.interrupt,
            || Conn::new(opts.clone()).is_ok(),
        )?;
        *running = Some((with.to_vec(), server));
        Ok(())
    }
}
