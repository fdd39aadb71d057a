//! A throw-away PostgreSQL.

use super::SYSTEM;
use crate::DatabaseSetup;
use crate::server::{Ending, Home, Programs, Running, beside_each_other, run};
use logforce_measure::MeasureError;
use postgres::{Config, NoTls};
use rustix::process::Signal;
use std::cell::RefCell;
use std::path::PathBuf;

/// Message if PostgreSQL is not installed.
pub const INSTALL: &str = "PostgreSQL is not installed (initdb and postgres are neither in the path nor in \
     /usr/lib/postgresql): apt-get install postgresql, dnf install postgresql-server, brew install postgresql.";

/// Name of the database user.
const USER: &str = "till";

/// A server, which is restarted when other settings are needed.
pub struct Server {
    // Declared first: the server is stopped before its directory is removed.
    running: RefCell<Option<(String, Running)>>,
    home: Home,
    programs: PathBuf,
    place: DatabaseSetup,
}

impl Server {
    /// Creates the server's files; `None` if PostgreSQL is not installed.
    pub fn new(place: &DatabaseSetup) -> Result<Option<Server>, MeasureError> {
        let programs = Programs::in_path_and(&[
            "/usr/lib/postgresql/*/bin",
            "/usr/pgsql-*/bin",
            "/usr/local/pgsql/bin",
            "/opt/homebrew/opt/postgresql@*/bin",
        ]);
        let Some(programs) = beside_each_other(&programs, &["initdb", "postgres"]) else {
            return Ok(None);
        };
        let home = Home::new(&place.path, "postgres", &["postgres"])?;
        let data = home.path().join("data");
        let arguments = [
            "--pgdata",
            &data.to_string_lossy(),
            "--auth=trust",
            &format!("--username={USER}"),
            "--encoding=UTF8",
            "--locale=C",
            "--no-instructions",
            // The first checkpoint writes these files to the disk.
            "--no-sync",
        ];
        let arguments = arguments.map(str::to_owned);
        run(
            SYSTEM,
            &programs.join("initdb"),
            &arguments,
            &home,
            // initdb cleans up when asked to end. A server that it started ends when its input does.
            Ending::Ask(Signal::TERM),
            &place.interrupt,
        )?;
        Ok(Some(Server {
            running: RefCell::new(None),
            home,
            programs,
            place: place.clone(),
        }))
    }

    /// Returns the connection options.
    pub fn config(&self) -> Config {
        let mut config = Config::new();
        config
            .host_path(self.home.sockets())
            .user(USER)
            .dbname("postgres");
        config
    }

    /// Starts or restarts the server so that it runs with that `wal_sync_method`; an empty one stands
    /// for the default.
    pub fn ensure(&self, wal_sync_method: &str) -> Result<(), MeasureError> {
        let mut running = self.running.borrow_mut();
        if running
            .as_ref()
            .is_some_and(|(method, _)| method == wal_sync_method)
        {
            return Ok(());
        }
        if let Some((_, server)) = running.take() {
            // The fast shutdown, which does not wait for clients.
            server.stop(Signal::INT, &self.home)?;
        }
        let mut arguments = vec![
            "-D".to_owned(),
            self.home.path().join("data").to_string_lossy().into_owned(),
        ];
        let mut set = |name: &str, value: &str| {
            arguments.extend(["-c".to_owned(), format!("{name}={value}")]);
        };
        set("listen_addresses", "");
        set(
            "unix_socket_directories",
            &self.home.sockets().to_string_lossy(),
        );
        set("max_connections", &(self.place.clients + 20).to_string());
        if !wal_sync_method.is_empty() {
            set("wal_sync_method", wal_sync_method);
        }
        let config = self.config();
        let answers = || config.connect(NoTls).is_ok();
        let server = Running::start(
            SYSTEM,
            &self.programs.join("postgres"),
            &arguments,
            &self.home,
            // The fast shutdown. The immediate one may leave shared memory behind that a process was
            // just creating.
            Ending::Ask(Signal::INT),
            &self.place.interrupt,
            answers,
        )?;
        *running = Some((wal_sync_method.to_owned(), server));
        Ok(())
    }
}
