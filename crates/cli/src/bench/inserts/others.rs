//! The databases beside the log. A build without the feature `databases` has the flags, too, and says
//! how to get them.

use logforce_measure::MeasureError;
use logforce_measure::group::Setup;
use logforce_measure::inserts::{Ledger, Options};

/// Whether this build has databases.
pub const THERE: bool = cfg!(feature = "databases");

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

        /// Adds nothing, and says how to get them.
        pub fn add(
            &self,
            _: &mut Vec<Box<dyn Ledger>>,
            _: &Setup,
            _: &logforce::Facts,
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
    use logforce_databases::{Place, sqlite};

    impl Args {
        /// Nothing to refuse.
        pub fn check(&self) -> anyhow::Result<()> {
            Ok(())
        }

        /// Adds the databases to the log. Returns what is to be said of them.
        pub fn add(
            &self,
            ledgers: &mut Vec<Box<dyn Ledger>>,
            setup: &Setup,
            facts: &logforce::Facts,
            options: &Options,
        ) -> Result<Vec<String>, MeasureError> {
            let place = Place {
                path: setup.path.clone(),
                facts: facts.clone(),
                interrupt: setup.interrupt.clone(),
                clients: options.clients.iter().copied().max().unwrap_or(1),
            };
            ledgers.extend(sqlite::ledgers(&place));
            Ok(Vec::new())
        }
    }
}
