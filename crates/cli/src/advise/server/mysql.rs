//! MySQL and MariaDB, asked by their client.

use super::{Answers, Url, client, known};
use crate::advise::config::Found;
use logforce_systems::System;
use logforce_systems::settings::SystemSettings;

/// Variable that holds the version.
const VERSION: &str = "version";

/// Asks the server for its global variables, by the first of `clients` that is installed. The settings are those of
/// the system that the server is, by its version.
pub fn ask(system: System, url: &Url, clients: &[&str]) -> anyhow::Result<Answers> {
    let of = |system| SystemSettings::of(system).names();
    let both = of(System::Mysql)
        .chain(of(System::Mariadb))
        .chain([VERSION]);
    let names: Vec<String> = both.map(|name| format!("'{name}'")).collect();
    let input = format!(
        "SHOW GLOBAL VARIABLES WHERE Variable_name IN ({});\n",
        names.join(", ")
    );
    let package = "mariadb-client (or mysql-client)";
    let mut command = client::first(clients, package)?;
    command.args(["--batch", "--skip-column-names", "--connect-timeout=10"]);
    let socket = url
        .option("socket")
        .or(Some(url.host.as_str()).filter(|h| h.starts_with('/')));
    match socket {
        Some(socket) => command.arg(format!("--socket={socket}")),
        None if url.host.is_empty() => &mut command,
        None => command.arg(format!("--host={}", url.host)),
    };
    if let Some(port) = url.port {
        command.arg(format!("--port={port}"));
    }
    if !url.user.is_empty() {
        command.arg(format!("--user={}", url.user));
    }
    if let Some(password) = &url.password {
        command.env("MYSQL_PWD", password);
    }
    let output = client::run(command, &input)?;
    let mut answers = answered(system, &output);
    answers.is_remote = url.is_remote();
    Ok(answers)
}

/// Returns the answers in the output of the client.
fn answered(system: System, output: &str) -> Answers {
    let mut answers = Answers::default();
    let columns = || output.lines().filter_map(|line| line.split_once('\t'));
    let version = columns().find(|(name, _)| *name == VERSION);
    let is = match version {
        Some((_, version)) if version.contains("MariaDB") => System::Mariadb,
        Some(_) => System::Mysql,
        None => system,
    };
    if let Some((_, version)) = version.filter(|_| is != system) {
        answers.other = Some((is, version.to_owned()));
    }
    let wanted: Vec<&'static str> = SystemSettings::of(is).names().collect();
    for line in output.lines() {
        let Some((name, value)) = line.split_once('\t') else {
            continue;
        };
        if let Some(name) = known(&wanted, name) {
            answers.configuration.found.push(Found {
                name,
                value: value.to_owned(),
                place: "the server".to_owned(),
            });
        }
    }
    answers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_says_which_system_the_server_is() {
        for (asked, version, other) in [
            (
                System::Mysql,
                "10.11.6-MariaDB-0+deb12u1",
                Some(System::Mariadb),
            ),
            (System::Mariadb, "10.11.6-MariaDB-log", None),
            (System::Mariadb, "8.4.0", Some(System::Mysql)),
            (System::Mysql, "8.4.0", None),
        ] {
            let output = format!("debug_no_sync\tON\nsync_binlog\t0\nversion\t{version}\n");
            let answers = answered(asked, &output);
            let found = answers.other.as_ref().map(|(system, _)| *system);
            assert_eq!(found, other, "{version}");
            // Only MariaDB has this variable in its list.
            let is_mariadb = version.contains("MariaDB");
            let debug = answers.configuration.of("debug_no_sync");
            assert_eq!(debug.is_some(), is_mariadb, "{version}");
            assert_eq!(answers.configuration.of("sync_binlog").unwrap().value, "0");
        }
    }
}
