//! `logforce bench inserts`.

mod others;

use super::common::{DirArgs, Files};
use crate::exit::End;
use logforce_measure::inserts::{Inserts, MOST, Options, PAIRS};
use logforce_terminal::arguments;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  logforce bench inserts /data                     the log alone, with and without a second log
  logforce bench inserts /data --servers           compared with SQLite, PostgreSQL and MariaDB, if installed
  logforce bench inserts /data --postgres postgres://till@localhost/shop --clients 1,32 --json -

The databases need a build with this feature, which needs a C compiler:
  cargo run --release --features databases -- bench inserts --servers
Temporary servers run in a temporary directory in DIR, accept connections by unix sockets only, and are
removed afterwards. If root runs this, they run as an unprivileged user. The settings of a server that
runs already are not changed.";

/// Largest number of clients; each has a thread and a connection to a database.
const MOST_CLIENTS: u32 = 256;

/// Flags of the scenario.
#[derive(Debug, clap::Args)]
#[group(id = "inserts_flags")]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    place: DirArgs,
    /// Number of timed inserts by one client
    #[arg(long, value_name = "N", default_value_t = PAIRS, value_parser = arguments::within::<u64>(1, MOST))]
    pairs: u64,
    /// Number of repetitions for each setting, in turn; slow settings are repeated less often
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = arguments::within::<u32>(1, 1000))]
    rounds: u32,
    /// Then: numbers of clients that insert at the same time, separated by commas
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "1,4,16",
        value_parser = arguments::within::<u32>(1, MOST_CLIENTS))]
    clients: Vec<u32>,
    /// Seconds for which each number of clients inserts
    #[arg(long, value_name = "S", default_value = "2", value_parser = arguments::seconds)]
    seconds: Duration,
    #[command(flatten)]
    others: others::Args,
    #[command(flatten)]
    files: Files,
}

impl Args {
    fn options(&self) -> anyhow::Result<Options> {
        self.files.check()?;
        self.place.check()?;
        self.others.check()?;
        Ok(Options {
            pairs: self.pairs,
            rounds: self.rounds,
            clients: self.clients.clone(),
            time: self.seconds,
            most: MOST,
        })
    }
}

/// Measures and reports.
pub fn run(args: Args) -> anyhow::Result<End> {
    let scenario = Inserts {
        options: args.options()?,
        others: &args.others,
    };
    super::run::run(&scenario, args.place.dir(), &args.files)
}
