//! Settings of a running server, asked by the system's own client. The client knows the user's credentials and
//! encryption, and needs no feature of this build.

mod client;
mod mysql;
mod postgresql;
mod redis;
mod sqlite;
mod url;

use super::config::{Configuration, Found};
use crate::exit::Usage;
use anyhow::bail;
use logforce_systems::System;
use std::path::PathBuf;
use url::Url;

/// Answers of a server.
#[derive(Debug, Default)]
pub struct Answers {
    /// Settings in force.
    pub configuration: Configuration,
    /// Settings that hold for some users or databases only, and count there.
    pub overrides: Vec<Found>,
    /// True if the server runs on another machine, so that its disk cannot be examined.
    pub is_remote: bool,
    /// System that the server turned out to be, with its version, if it is not the one that was named.
    pub other: Option<(System, String)>,
    /// Directory of the files, if no setting holds it.
    pub directory: Option<PathBuf>,
}

/// Asks a server, or an SQLite database, for the settings `wanted`.
pub fn ask(system: System, url: &str, wanted: &[&'static str]) -> anyhow::Result<Answers> {
    match system {
        System::Sqlite => sqlite::ask(url),
        System::Postgresql => {
            postgresql::ask(&Url::parse(url, &["postgres", "postgresql"])?, wanted)
        }
        System::Mysql | System::Mariadb => {
            let clients = match system {
                System::Mysql => ["mysql", "mariadb"],
                _ => ["mariadb", "mysql"],
            };
            mysql::ask(system, &Url::parse(url, &["mysql", "mariadb"])?, &clients)
        }
        System::Redis => redis::ask(&Url::parse(url, &["redis", "rediss", "valkey"])?, wanted),
        other => bail!(Usage(format!(
            "--url: a running {} is not asked: give its configuration as --config FILE",
            other.title()
        ))),
    }
}

/// Returns the name in `wanted` that `name` stands for.
fn known(wanted: &[&'static str], name: &str) -> Option<&'static str> {
    wanted
        .iter()
        .find(|w| w.eq_ignore_ascii_case(name))
        .copied()
}
