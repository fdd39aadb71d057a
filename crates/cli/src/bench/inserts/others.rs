//! The databases beside the log. A build without the feature `databases` has the flags, too, and says
//! how to get them.

use logforce_measure::MeasureError;
use logforce_measure::Setup;
use logforce_measure::inserts::{Options, Others, SalesLedger};

/// What SQLite needs beside the log, bytes: its table, and its WAL until the next checkpoint.
const SQLITE: u64 = if cfg!(feature = "databases") {
    64 << 20
} else {
    0
};
/// What throw-away servers need, bytes: they take 0.4 GiB before the first row.
const SERVERS: u64 = 1 << 30;

/// Flags of the databases.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Start throw-away servers of what is installed of PostgreSQL and MariaDB, in the temporary
    /// directory, and measure them (build with --features databases)
    #[arg(long)]
    servers: bool,
    /// Measure a PostgreSQL that runs already: postgres://USER@HOST/DATABASE. Makes a table in it, and
    /// drops it again (build with --features databases)
    #[arg(long, value_name = "URL")]
    postgres: Option<String>,
    /// Measure a MariaDB or MySQL that runs already: mysql://USER@HOST/DATABASE, in the same way (build
    /// with --features databases)
    #[arg(long, value_name = "URL")]
    mysql: Option<String>,
}

/// Returns what the databases need on the disk, bytes, and which flags would help where it is not
/// there.
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
        /// Refuses what this build does not have.
        pub fn check(&self) -> anyhow::Result<()> {
            if self.servers || self.postgres.is_some() || self.mysql.is_some() {
                bail!(Usage(format!("this build has no databases. {HOW}")));
            }
            Ok(())
        }
    }

    impl Others for Args {
        fn need(&self) -> (u64, &'static str) {
            need(self)
        }

        /// Adds nothing, and says how to get them.
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

    const HOW: &str = "SQLite, PostgreSQL and MariaDB beside this: `cargo run --release --features \
         databases -- bench inserts --servers` (needs a C compiler, and of the servers what is to be \
         measured).";
}

#[cfg(feature = "databases")]
mod there {
    use super::*;
    use crate::exit::Usage;
    use logforce_databases::{DatabaseSetup, Listed, mysql, postgres, sqlite};

    /// The server of a flag's URL, or what to look at where it does not answer.
    fn reached(flag: &str, listed: Result<Listed, MeasureError>) -> Result<Listed, MeasureError> {
        listed.map_err(|e| match e {
            MeasureError::NotOffered(why) => MeasureError::NotOffered(format!(
                "{flag}: {why}. Nothing was measured: see that the server runs, and that its URL is right"
            )),
            e => e,
        })
    }

    impl Args {
        /// Refuses what is no URL: a server that does not answer is another matter.
        pub fn check(&self) -> anyhow::Result<()> {
            let unusable = |flag: &str, form: &str, checked: Result<(), MeasureError>| {
                // Without the URL, which may have a password in it.
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
                "A database does more for an insert than a log: SQL, a table with an index, and a round \
                 trip to the server but for SQLite, where one client writes at a time and the others try \
                 again after a pause."
                    .to_owned(),
            ];
            let mut add = |listed: Listed| match listed {
                Listed::Ledgers(more) => ledgers.extend(more),
                Listed::Missing(why) => notes.push(why),
            };
            // Whoever names a server wants its figures: without them nothing is measured.
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
                    "Throw-away servers need a system with unix sockets: give --postgres or --mysql."
                        .to_owned(),
                );
            } else if self.postgres.is_none() && self.mysql.is_none() {
                notes.push(
                    "PostgreSQL and MariaDB beside this: --servers, or --postgres and --mysql with a URL."
                        .to_owned(),
                );
            }
            Ok(notes)
        }
    }
}
