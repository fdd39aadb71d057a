//! Databases to compare the log with. A build without the feature `databases` accepts the flags as well,
//! and reports how to build with it.

use logforce_measure::MeasureError;
use logforce_measure::Setup;
use logforce_measure::inserts::{Options, Others, SalesLedger};

/// Disk space that SQLite needs, bytes: for its table, and for its WAL until the next checkpoint.
const SQLITE: u64 = if cfg!(feature = "databases") {
    64 << 20
} else {
    0
};
/// Disk space that temporary servers need, bytes. They use 0.4 GiB before the first row.
const SERVERS: u64 = 1 << 30;

/// Flags of the databases.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Start temporary servers of PostgreSQL and MariaDB, if installed, and measure them (build with
    /// --features databases)
    #[arg(long)]
    servers: bool,
    /// Measure a running PostgreSQL: postgres://USER@HOST/DATABASE. Creates a table and drops it again
    /// (build with --features databases)
    #[arg(long, value_name = "URL")]
    postgres: Option<String>,
    /// Measure a running MariaDB or MySQL: mysql://USER@HOST/DATABASE. Creates a table and drops it again
    /// (build with --features databases)
    #[arg(long, value_name = "URL")]
    mysql: Option<String>,
}

/// Returns the disk space that the databases need, bytes, and the flags to change if there is less.
fn need(args: &Args) -> (u64, &'static str) {
    match args.servers {
        true => (SQLITE + SERVERS, "another --dir, or leave out --servers"),
        false => (SQLITE, "another --dir"),
    }
}

#[cfg(not(feature = "databases"))]
mod there {
    use super::*;
    use crate::exit::Usage;
    use anyhow::bail;

    impl Args {
        /// Refuses the flags of databases that this build lacks.
        pub fn check(&self) -> anyhow::Result<()> {
            if self.servers || self.postgres.is_some() || self.mysql.is_some() {
                bail!(Usage(format!(
                    "this build does not support databases. {HOW}"
                )));
            }
            Ok(())
        }
    }

    impl Others for Args {
        fn need(&self) -> (u64, &'static str) {
            need(self)
        }

        /// Adds nothing, and returns a note on how to build with databases.
        fn add(
            &self,
            _: &mut Vec<Box<dyn SalesLedger>>,
            _: &Setup,
            _: &logforce::disk::Facts,
            _: &Options,
        ) -> Result<Vec<String>, MeasureError> {
            Ok(vec![HOW.to_owned()])
        }
    }

    const HOW: &str = "To compare with SQLite, PostgreSQL and MariaDB: `cargo run --release --features \
         databases -- bench inserts --servers` (needs a C compiler, and installed servers).";
}

#[cfg(feature = "databases")]
mod there {
    use super::*;
    use crate::exit::Usage;
    use logforce_databases::{DatabaseSetup, Listed, mysql, postgres, sqlite};

    /// Returns the server of a flag's URL. If it does not answer, the error says what to check.
    fn reached(flag: &str, listed: Result<Listed, MeasureError>) -> Result<Listed, MeasureError> {
        listed.map_err(|e| match e {
            MeasureError::NotOffered(why) => MeasureError::NotOffered(format!(
                "{flag}: {why}. Nothing was measured: check that the server runs and that its URL is right"
            )),
            e => e,
        })
    }

    impl Args {
        /// Refuses a malformed URL. A server that does not answer is reported later.
        pub fn check(&self) -> anyhow::Result<()> {
            let unusable = |flag: &str, form: &str, checked: Result<(), MeasureError>| {
                // The message leaves out the URL, which may contain a password.
                checked.map_err(|e| Usage(format!("{flag}: {e}: give {form}")))
            };
            if let Some(url) = &self.postgres {
                let form = "postgres://USER@HOST/DATABASE";
                unusable("--postgres", form, postgres::check_url(url))?;
            }
            if let Some(url) = &self.mysql {
                unusable(
                    "--mysql",
                    "mysql://USER@HOST/DATABASE",
                    mysql::check_url(url),
                )?;
            }
            Ok(())
        }
    }

    impl Others for Args {
        fn need(&self) -> (u64, &'static str) {
            need(self)
        }

        fn add(
            &self,
            ledgers: &mut Vec<Box<dyn SalesLedger>>,
            setup: &Setup,
            facts: &logforce::disk::Facts,
            options: &Options,
        ) -> Result<Vec<String>, MeasureError> {
            let place = DatabaseSetup {
                path: setup.path.clone(),
                facts: facts.clone(),
                interrupt: setup.interrupt.clone(),
                clients: options.clients.iter().copied().max().unwrap_or(1),
            };
            ledgers.extend(sqlite::ledgers(&place));
            let mut notes = vec![
                "A database does more for an insert than a log: it runs SQL and updates a table with an \
                 index. Each insert is also a round trip to the server, except for SQLite, where one client \
                 writes at a time and the others retry after a pause."
                    .to_owned(),
            ];
            let mut add = |listed: Listed| match listed {
                Listed::Ledgers(more) => ledgers.extend(more),
                Listed::Missing(why) => notes.push(why),
            };
            // The user wants the figures of a server that is named, so a failure there ends the command.
            if let Some(url) = &self.postgres {
                add(reached("--postgres", postgres::of_url(url, &place))?);
            }
            if let Some(url) = &self.mysql {
                add(reached("--mysql", mysql::of_url(url, &place))?);
            }
            if self.servers {
                #[cfg(unix)]
                for (name, of_server) in [
                    ("PostgreSQL", postgres::of_server as fn(&DatabaseSetup) -> _),
                    ("MariaDB", mysql::of_server),
                ] {
                    setup.progress.doing(&format!("making a {name} server"));
                    add(match of_server(&place) {
                        Ok(listed) => listed,
                        Err(e @ MeasureError::Interrupted) => return Err(e),
                        Err(e) => Listed::Missing(format!("{name} is not measured: {e}.")),
                    });
                }
                #[cfg(not(unix))]
                notes.push(
                    "Temporary servers need a system with unix sockets: give --postgres or --mysql."
                        .to_owned(),
                );
            } else if self.postgres.is_none() && self.mysql.is_none() {
                notes.push(
                    "To compare with PostgreSQL and MariaDB: --servers, or --postgres and --mysql with a URL."
                        .to_owned(),
                );
            }
            Ok(notes)
        }
    }
}
