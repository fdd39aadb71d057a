//! Redis and Valkey, asked by their client.

use super::{Answers, Url, client, known};
use crate::advise::config::Found;
use anyhow::bail;

/// Asks the server for its settings.
pub fn ask(url: &Url, wanted: &[&'static str]) -> anyhow::Result<Answers> {
    let package = "redis-tools (or valkey-tools)";
    let mut command = client::first(&["redis-cli", "valkey-cli"], package)?;
    match url.host.as_str() {
        "" => {}
        socket if socket.starts_with('/') => {
            command.args(["-s", socket]);
        }
        host => {
            command.args(["-h", host]);
        }
    }
    if let Some(port) = url.port {
        command.args(["-p", &port.to_string()]);
    }
    if url.scheme == "rediss" {
        command.arg("--tls");
    }
    if !url.user.is_empty() {
        command.args(["--user", &url.user]);
    }
    if let Some(password) = &url.password {
        command.env("REDISCLI_AUTH", password);
    }
    let input: String = wanted
        .iter()
        .map(|name| format!("CONFIG GET {name}\n"))
        .collect();
    let output = client::run(command, &input)?;
    let mut answers = Answers {
        is_remote: url.is_remote(),
        ..Answers::default()
    };
    let mut lines = output.lines();
    while let Some(line) = lines.next() {
        // The client prints an error of the server, and goes on.
        let is_error = ["ERR ", "NOAUTH ", "NOPERM ", "WRONGPASS "]
            .iter()
            .any(|e| line.starts_with(e));
        if is_error {
            bail!("the server does not tell its settings: {line}");
        }
        if let (Some(name), Some(value)) = (known(wanted, line), lines.next()) {
            answers.configuration.found.push(Found {
                name,
                value: value.to_owned(),
                place: "the server".to_owned(),
            });
        }
    }
    if answers.configuration.found.is_empty() {
        bail!("the server does not tell its settings: CONFIG GET returned nothing");
    }
    Ok(answers)
}
