//! MariaDB, and MySQL by URL. The cases differ in when InnoDB's redo log is forced, and whether there is
//! a binary log.

#[cfg(unix)]
mod server;
mod worth;

use crate::error::said;
use crate::{DatabaseSetup, Listed, by_url, table_name};
use logforce_measure::MeasureError;
use logforce_measure::inserts::{Policy, ReadBack, Sale, SalesLedger, Session, Setting, Table};
use mysql::prelude::Queryable;
use mysql::{Conn, Opts, Statement};
use std::cell::Cell;
#[cfg(unix)]
use std::rc::Rc;

const SYSTEM: &str = "MariaDB";

/// Name of the database in a throw-away server.
#[cfg(unix)]
const DATABASE: &str = "till";

/// Server to connect to.
#[derive(Clone)]
enum Source {
    /// A running server; its settings belong to its owner.
    Url(Opts),
    /// A throw-away server.
    #[cfg(unix)]
    Own(Rc<server::Server>),
}

/// Settings that decide when a log is forced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Case {
    policy: Policy,
    /// Value of `sync_binlog`; `None` if the binary log is off.
    binlog: Option<u64>,
    /// Value of `innodb_log_file_write_through`; `None` if the server does not have it.
    through: Option<bool>,
}

/// Returns the ledgers of a throw-away server.
#[cfg(unix)]
pub fn of_server(place: &DatabaseSetup) -> Result<Listed, MeasureError> {
    let Some(server) = server::Server::new(place)? else {
        return Ok(Listed::Missing(server::INSTALL.to_owned()));
    };
    let server = Rc::new(server);
    server.ensure(&arguments(None, None))?;
    let mut conn = connect(server.opts())?;
    let create = format!("CREATE DATABASE {DATABASE}");
    conn.query_drop(create)
        .map_err(said(SYSTEM, "making a database"))?;
    let (_, version) = name_and_version(&mut conn)?;
    let through = read_through(&mut conn)?;
    let mut cases = Vec::new();
    for binlog in [None, Some(1), Some(0)] {
        for through in through.map_or(vec![None], |_| vec![Some(false), Some(true)]) {
            for policy in Policy::ALL {
                cases.push(Case {
                    policy,
                    binlog,
                    through,
                });
            }
        }
    }
    let ledgers = cases.into_iter().map(|case| {
        let setting = setting(SYSTEM, &version, case, Some(place));
        ledger(Source::Own(Rc::clone(&server)), case, setting)
    });
    Ok(Listed::Ledgers(ledgers.collect()))
}

/// Checks the syntax of the URL.
pub fn check_url(url: &str) -> Result<(), MeasureError> {
    let opts = Opts::from_url(url);
    opts.map(drop).map_err(said(SYSTEM, "reading the URL"))
}

/// Returns the ledger of the server at `url`, with its current settings. They apply to the whole server,
/// so this program does not change them.
pub fn of_url(url: &str, _: &DatabaseSetup) -> Result<Listed, MeasureError> {
    let opts = Opts::from_url(url).map_err(said(SYSTEM, "reading the URL"))?;
    let mut conn = connect(opts.clone())?;
    let (system, version) = name_and_version(&mut conn)?;
    let number = |conn: &mut Conn, name: &str| -> Result<u64, MeasureError> {
        let value: Option<u64> = conn
            .query_first(format!("SELECT @@GLOBAL.{name}"))
            .map_err(said(SYSTEM, "asking for settings"))?;
        Ok(value.unwrap_or_default())
    };
    let policy = match number(&mut conn, "innodb_flush_log_at_trx_commit")? {
        0 => Policy::Later,
        2 => Policy::Write,
        _ => Policy::Force,
    };
    let binlog = match number(&mut conn, "log_bin")? {
        0 => None,
        _ => Some(number(&mut conn, "sync_binlog")?),
    };
    let case = Case {
        policy,
        binlog,
        through: read_through(&mut conn)?,
    };
    let setting = setting(&by_url(&system), &version, case, None);
    Ok(Listed::Ledgers(vec![ledger(
        Source::Url(opts),
        case,
        setting,
    )]))
}

fn connect(opts: Opts) -> Result<Conn, MeasureError> {
    Conn::new(opts).map_err(|e| {
        let doing = "connecting";
        match e {
            // The outer error would also print the names of the client's own types.
            mysql::Error::DriverError(e) => said(SYSTEM, doing)(e),
            mysql::Error::MySqlError(e) => said(SYSTEM, doing)(e),
            mysql::Error::IoError(e) => said(SYSTEM, doing)(e),
            e => said(SYSTEM, doing)(e),
        }
    })
}

fn name_and_version(conn: &mut Conn) -> Result<(String, String), MeasureError> {
    let version: Option<String> = conn
        .query_first("SELECT VERSION()")
        .map_err(said(SYSTEM, "asking for its version"))?;
    let version = version.unwrap_or_default();
    let system = if version.contains("MariaDB") {
        SYSTEM
    } else {
        "MySQL"
    };
    let number = version.split('-').next().unwrap_or_default();
    Ok((system.to_owned(), number.to_owned()))
}

/// Returns the setting by which newer servers make each write of the redo log durable by itself.
fn read_through(conn: &mut Conn) -> Result<Option<bool>, MeasureError> {
    let asked: Option<(String, String)> = conn
        .query_first("SHOW GLOBAL VARIABLES LIKE 'innodb_log_file_write_through'")
        .map_err(said(SYSTEM, "asking for settings"))?;
    Ok(asked.map(|(_, value)| value == "ON"))
}

/// Returns the server's command-line arguments.
#[cfg(unix)]
fn arguments(binlog: Option<u64>, through: Option<bool>) -> Vec<String> {
    let mut arguments = Vec::new();
    if binlog.is_some() {
        arguments.extend(["--log-bin=binlog".to_owned(), "--server-id=1".to_owned()]);
    }
    if let Some(through) = through {
        let on_off = if through { "ON" } else { "OFF" };
        arguments.push(format!("--innodb-log-file-write-through={on_off}"));
    }
    arguments
}

fn ledger(source: Source, case: Case, setting: Setting) -> Box<dyn SalesLedger> {
    Box::new(Mysql {
        setting,
        source,
        case,
        table: table_name(),
        made: Cell::new(false),
    })
}

/// Returns the description of a case. `place` has the server's files; `None` if they are elsewhere.
fn setting(system: &str, version: &str, case: Case, place: Option<&DatabaseSetup>) -> Setting {
    let mut settings = format!("trx_commit={}", case.policy.number());
    match case.binlog {
        Some(sync) => settings.push_str(&format!(", sync_binlog={sync}")),
        None => settings.push_str(", no binlog"),
    }
    if case.through == Some(true) {
        settings.push_str(", write_through");
    }
    // Either both logs are forced, or neither is.
    let goes_together = match case.binlog {
        Some(sync) => (sync == 1) == (case.policy == Policy::Force) || place.is_none(),
        None => true,
    };
    Setting {
        system: system.to_owned(),
        version: version.to_owned(),
        settings,
        policy: Some(case.policy),
        second_log: Some(case.binlog.is_some()),
        usual: goes_together && (case.through != Some(true) || place.is_none()),
        worth: worth::worth(case, place.map(|p| &p.facts)),
        on_this_disk: place.is_some(),
        by_fua: case.through == Some(true),
    }
}

struct Mysql {
    setting: Setting,
    source: Source,
    case: Case,
    table: String,
    /// True while this program's table exists.
    made: Cell<bool>,
}

impl Mysql {
    /// Returns the connection options. A throw-away server is started with the case's settings first.
    fn opts(&self) -> Result<Opts, MeasureError> {
        match &self.source {
            Source::Url(opts) => Ok(opts.clone()),
            #[cfg(unix)]
            Source::Own(server) => {
                server.ensure(&arguments(self.case.binlog, self.case.through))?;
                let opts = mysql::OptsBuilder::from_opts(server.opts());
                Ok(opts.db_name(Some(DATABASE)).into())
            }
        }
    }

    fn drop_table(&self, conn: &mut Conn) -> Result<(), MeasureError> {
        let drop = format!("DROP TABLE {}", self.table);
        conn.query_drop(drop)
            .map_err(said(SYSTEM, "dropping the table"))?;
        self.made.set(false);
        Ok(())
    }
}

impl Drop for Mysql {
    fn drop(&mut self) {
        // A throw-away server is removed together with the table.
        if let (true, Source::Url(opts)) = (self.made.get(), &self.source)
            && let Ok(mut conn) = connect(opts.clone())
        {
            let _ = self.drop_table(&mut conn);
        }
    }
}

impl SalesLedger for Mysql {
    fn setting(&self) -> &Setting {
        &self.setting
    }

    fn open(&self) -> Result<Box<dyn Table>, MeasureError> {
        let opts = self.opts()?;
        let mut conn = connect(opts.clone())?;
        if !matches!(self.source, Source::Url(_)) {
            let mut settings = vec![(
                "innodb_flush_log_at_trx_commit",
                u64::from(self.case.policy.number()),
            )];
            settings.extend(self.case.binlog.map(|sync| ("sync_binlog", sync)));
            for (name, value) in settings {
                let set = format!("SET GLOBAL {name} = {value}");
                conn.query_drop(set).map_err(said(SYSTEM, "SET GLOBAL"))?;
            }
        }
        let create = format!(
            "CREATE TABLE {} ({}) ENGINE=InnoDB",
            self.table,
            Sale::COLUMNS
        );
        conn.query_drop(create)
            .map_err(said(SYSTEM, "making the table"))?;
        self.made.set(true);
        Ok(Box::new(Open {
            opts,
            insert: format!("INSERT INTO {} VALUES (?, ?, ?, ?, ?, ?, ?, ?)", self.table),
        }))
    }

    fn read_back(&self, found: &mut ReadBack) -> Result<(), MeasureError> {
        let mut conn = connect(self.opts()?)?;
        let select = format!("SELECT {} FROM {}", Sale::NAMES, self.table);
        let read = read(&mut conn, &select, found).map_err(said(SYSTEM, "reading the table"));
        self.drop_table(&mut conn)?;
        read
    }
}

type Row = (i64, i32, i64, i32, i32, i64, i64, String);

fn read(conn: &mut Conn, select: &str, found: &mut ReadBack) -> mysql::Result<()> {
    for row in conn.query_iter(select)? {
        // A row that does not convert is not what was inserted.
        let row = mysql::from_row_opt::<Row>(row?).ok();
        let sale = row.map(|r| Sale {
            id: u64::try_from(r.0).unwrap_or(u64::MAX),
            till: r.1,
            receipt: r.2,
            line: r.3,
            quantity: r.4,
            price_cents: r.5,
            sold_at: r.6,
            article: r.7,
        });
        found.see(sale.as_ref());
    }
    Ok(())
}

struct Open {
    opts: Opts,
    insert: String,
}

impl Table for Open {
    fn session(&self) -> Result<Box<dyn Session>, MeasureError> {
        let mut conn = connect(self.opts.clone())?;
        let insert = conn
            .prep(&self.insert)
            .map_err(said(SYSTEM, "preparing the insert"))?;
        Ok(Box::new(Connected { conn, insert }))
    }
}

struct Connected {
    conn: Conn,
    insert: Statement,
}

impl Session for Connected {
    fn insert_and_commit(&mut self, sale: &Sale) -> Result<(), MeasureError> {
        // By default each statement is a transaction.
        let row: Row = (
            sale.id.cast_signed(),
            sale.till,
            sale.receipt,
            sale.line,
            sale.quantity,
            sale.price_cents,
            sale.sold_at,
            sale.article.clone(),
        );
        self.conn
            .exec_drop(&self.insert, row)
            .map_err(said(SYSTEM, "inserting"))
    }
}
