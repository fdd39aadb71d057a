//! PostgreSQL with each of its methods to sync the log, and with commits that do not wait for the sync.

#[cfg(unix)]
mod server;

use crate::error::said;
use crate::worth::{SYNCED, documented, elsewhere, forced};
use crate::{DatabaseSetup, Listed, by_url, table_name};
use logforce_device::{Assessment, FileState, Guarantee, Method};
use logforce_measure::MeasureError;
use logforce_measure::inserts::{Policy, ReadBack, Sale, SalesLedger, Session, Setting, Table};
use postgres::fallible_iterator::FallibleIterator;
use postgres::{Client, Config, NoTls, Statement};
use std::cell::Cell;
#[cfg(unix)]
use std::rc::Rc;

const SYSTEM: &str = "PostgreSQL";

/// Server to connect to.
#[derive(Clone)]
enum Source {
    /// A running server; its settings belong to its owner.
    Url(Box<Config>),
    /// A throw-away server, restarted for each `wal_sync_method`.
    #[cfg(unix)]
    Own(Rc<server::Server>),
}

impl Source {
    /// Returns the connection options. A throw-away server is started with that `wal_sync_method` first.
    fn config(&self, wal_sync_method: &str) -> Result<Config, MeasureError> {
        match self {
            Source::Url(config) => {
                let _ = wal_sync_method;
                Ok((**config).clone())
            }
            #[cfg(unix)]
            Source::Own(server) => {
                server.ensure(wal_sync_method)?;
                Ok(server.config())
            }
        }
    }
}

/// Returns the ledgers of a throw-away server.
#[cfg(unix)]
pub fn of_server(place: &DatabaseSetup) -> Result<Listed, MeasureError> {
    let Some(server) = server::Server::new(place)? else {
        return Ok(Listed::Missing(server::INSTALL.to_owned()));
    };
    let source = Source::Own(Rc::new(server));
    listed(source, place)
}

/// Checks the syntax of the URL.
pub fn check_url(url: &str) -> Result<(), MeasureError> {
    let config = url.parse::<Config>();
    config
        .map(drop)
        .map_err(said::<postgres::Error>(SYSTEM, "reading the URL"))
}

/// Returns the ledgers of the server at `url`.
pub fn of_url(url: &str, place: &DatabaseSetup) -> Result<Listed, MeasureError> {
    let config: Config = url
        .parse()
        .map_err(said::<postgres::Error>(SYSTEM, "reading the URL"))?;
    listed(Source::Url(Box::new(config)), place)
}

fn connect(config: &Config) -> Result<Client, MeasureError> {
    config.connect(NoTls).map_err(said(SYSTEM, "connecting"))
}

/// Version and settings of a server.
struct Server {
    version: String,
    /// Default `wal_sync_method`.
    method: String,
    /// All values of `wal_sync_method`.
    methods: Vec<String>,
    /// True if `fsync` is on.
    fsync: bool,
}

impl Server {
    fn asked(client: &mut Client) -> Result<Server, postgres::Error> {
        let mut show = |name: &str| -> Result<String, postgres::Error> {
            client.query_one(&format!("SHOW {name}"), &[])?.try_get(0)
        };
        let (version, method, fsync) = (
            show("server_version")?,
            show("wal_sync_method")?,
            show("fsync")?,
        );
        let all = "SELECT enumvals FROM pg_settings WHERE name = 'wal_sync_method'";
        Ok(Server {
            // Debian adds the name of its package.
            version: version.split(' ').next().unwrap_or_default().to_owned(),
            method,
            methods: client.query_one(all, &[])?.try_get(0)?,
            fsync: fsync == "on",
        })
    }
}

fn listed(source: Source, place: &DatabaseSetup) -> Result<Listed, MeasureError> {
    let mut client = connect(&source.config("")?)?;
    let server = Server::asked(&mut client).map_err(said(SYSTEM, "asking for settings"))?;
    let is_own = !matches!(source, Source::Url(_));
    let mut cases: Vec<(bool, &String)> = vec![(true, &server.method)];
    if is_own {
        let others = server.methods.iter().filter(|m| **m != server.method);
        cases.extend(others.map(|m| (true, m)));
    }
    cases.push((false, &server.method));
    let ledgers = cases.into_iter().map(|(waits, method)| {
        let ledger = Postgres {
            setting: setting(&server, waits, method, is_own, place),
            source: source.clone(),
            waits,
            method: method.clone(),
            table: table_name(),
            made: Cell::new(false),
        };
        Box::new(ledger) as Box<dyn SalesLedger>
    });
    Ok(Listed::Ledgers(ledgers.collect()))
}

fn setting(
    server: &Server,
    waits: bool,
    method: &str,
    is_own: bool,
    place: &DatabaseSetup,
) -> Setting {
    let on_off = if waits { "on" } else { "off" };
    let worth = match (waits, server.fsync) {
        (false, _) => Some(documented(
            Guarantee::Nothing,
            "the log is in the server's memory when the commit returns, and written and synced within \
             three times wal_writer_delay (0.6 s)",
        )),
        (true, false) => Some(documented(
            Guarantee::ProcessCrash,
            "fsync=off: nothing is synced",
        )),
        (true, true) if is_own => synced(method, place),
        (true, true) => Some(elsewhere(SYNCED)),
    };
    Setting {
        system: if is_own {
            SYSTEM.to_owned()
        } else {
            by_url(SYSTEM)
        },
        version: server.version.clone(),
        settings: format!("synchronous_commit={on_off}, {method}"),
        policy: Some(if waits { Policy::Force } else { Policy::Later }),
        second_log: None,
        usual: method == server.method,
        worth,
        on_this_disk: is_own,
        by_fua: false,
    }
}

/// Returns the guarantee of a synced commit. PostgreSQL fills its log with zeroes and recycles it.
fn synced(method: &str, place: &DatabaseSetup) -> Option<Assessment> {
    let how = match method {
        "fsync" => Method::Fsync,
        "fdatasync" => Method::Fdatasync,
        "fsync_writethrough" => Method::FullFsync,
        "open_datasync" | "open_sync" => Method::Dsync,
        _ => return None,
    };
    forced(&place.facts, how, FileState::Zeroed, SYNCED)
}

struct Postgres {
    setting: Setting,
    source: Source,
    /// Value of `synchronous_commit`.
    waits: bool,
    method: String,
    table: String,
    /// True while this program's table exists.
    made: Cell<bool>,
}

impl Postgres {
    fn connect(&self) -> Result<Client, MeasureError> {
        connect(&self.source.config(&self.method)?)
    }

    fn drop_table(&self, client: &mut Client) -> Result<(), MeasureError> {
        let drop = format!("DROP TABLE {}", self.table);
        client
            .batch_execute(&drop)
            .map_err(said(SYSTEM, "dropping the table"))?;
        self.made.set(false);
        Ok(())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // A throw-away server is removed together with the table.
        if let (true, Source::Url(config)) = (self.made.get(), &self.source)
            && let Ok(mut client) = connect(config)
        {
            let _ = self.drop_table(&mut client);
        }
    }
}

impl SalesLedger for Postgres {
    fn setting(&self) -> &Setting {
        &self.setting
    }

    fn open(&self) -> Result<Box<dyn Table>, MeasureError> {
        let config = self.source.config(&self.method)?;
        let mut client = connect(&config)?;
        let create = format!("CREATE TABLE {} ({})", self.table, Sale::COLUMNS);
        client
            .batch_execute(&create)
            .map_err(said(SYSTEM, "making the table"))?;
        self.made.set(true);
        if !matches!(self.source, Source::Url(_)) {
            // Writes back dirty pages of earlier rows now, and not during the measurement.
            client
                .batch_execute("CHECKPOINT")
                .map_err(said(SYSTEM, "CHECKPOINT"))?;
        }
        Ok(Box::new(Open {
            config,
            waits: self.waits,
            insert: format!(
                "INSERT INTO {} VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
                self.table
            ),
        }))
    }

    fn read_back(&self, found: &mut ReadBack) -> Result<(), MeasureError> {
        let mut client = self.connect()?;
        let select = format!("SELECT {} FROM {}", Sale::NAMES, self.table);
        let read = read(&mut client, &select, found).map_err(said(SYSTEM, "reading the table"));
        self.drop_table(&mut client)?;
        read
    }
}

fn read(client: &mut Client, select: &str, found: &mut ReadBack) -> Result<(), postgres::Error> {
    let nothing: [i32; 0] = [];
    let mut rows = client.query_raw(select, nothing)?;
    while let Some(row) = rows.next()? {
        let id: i64 = row.try_get(0)?;
        found.see(Some(&Sale {
            id: u64::try_from(id).unwrap_or(u64::MAX),
            till: row.try_get(1)?,
            receipt: row.try_get(2)?,
            line: row.try_get(3)?,
            quantity: row.try_get(4)?,
            price_cents: row.try_get(5)?,
            sold_at: row.try_get(6)?,
            article: row.try_get(7)?,
        }));
    }
    Ok(())
}

struct Open {
    config: Config,
    waits: bool,
    insert: String,
}

impl Table for Open {
    fn session(&self) -> Result<Box<dyn Session>, MeasureError> {
        let mut client = connect(&self.config)?;
        let on_off = if self.waits { "on" } else { "off" };
        let set = format!("SET synchronous_commit = {on_off}");
        client
            .batch_execute(&set)
            .map_err(said(SYSTEM, "SET synchronous_commit"))?;
        let insert = client
            .prepare(&self.insert)
            .map_err(said(SYSTEM, "preparing the insert"))?;
        Ok(Box::new(Connected { client, insert }))
    }
}

struct Connected {
    client: Client,
    insert: Statement,
}

impl Session for Connected {
    fn insert_and_commit(&mut self, sale: &Sale) -> Result<(), MeasureError> {
        // Without BEGIN and COMMIT each statement is a transaction.
        let inserted = self.client.execute(
            &self.insert,
            &[
                &sale.id.cast_signed(),
                &sale.till,
                &sale.receipt,
                &sale.line,
                &sale.quantity,
                &sale.price_cents,
                &sale.sold_at,
                &sale.article,
            ],
        );
        inserted.map(drop).map_err(said(SYSTEM, "inserting"))
    }
}
