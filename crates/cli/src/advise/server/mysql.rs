//! MySQL and MariaDB, asked by their client.

use super::{Answers, Url, client, known};
use crate::advise::config::Found;

/// Asks the server for its global variables, by the first of `clients` that is installed.
pub fn ask(url: &Url, wanted: &[&'static str], clients: &[&str]) -> anyhow::Result<Answers> {
    let names: Vec<String> = wanted.iter().map(|name| format!("'{name}'")).collect();
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
    let mut answers = Answers {
        is_remote: url.is_remote(),
        ..Answers::default()
    };
    for line in output.lines() {
        let Some((name, value)) = line.split_once('\t') else {
            continue;
        };
        if let Some(name) = known(wanted, name) {
            answers.configuration.found.push(Found {
                name,
                value: value.to_owned(),
                place: "the server".to_owned(),
            });
        }
    }
    Ok(answers)
}
