//! PostgreSQL, asked by psql.

use super::{Answers, Url, client, known};
use crate::advise::config::Found;

/// Separator of columns, which no value contains.
const SEPARATOR: char = '\u{1f}';

/// Sources of a value that holds for this user's session only, and hides the value of the server.
const OF_THE_SESSION: [&str; 5] = ["database", "user", "database user", "client", "session"];

/// Asks the server for its settings, and for those of roles and databases.
pub fn ask(url: &Url, wanted: &[&'static str]) -> anyhow::Result<Answers> {
    let mut command = client::first(&["psql"], "postgresql-client")?;
    let separator = SEPARATOR.to_string();
    command
        .args([
            "-X",
            "-w",
            "-q",
            "-A",
            "-t",
            "-v",
            "ON_ERROR_STOP=1",
            "-F",
            &separator,
        ])
        .args(["-d", &without_password(url)])
        .env("PGCONNECT_TIMEOUT", "10");
    if let Some(password) = &url.password {
        command.env("PGPASSWORD", password);
    }
    let mut answers = Answers {
        is_remote: url.is_remote(),
        ..Answers::default()
    };
    let mut hidden: Vec<(&'static str, String)> = Vec::new();
    for line in client::run(command, &question(wanted))?.lines() {
        let columns: Vec<&str> = line.split(SEPARATOR).collect();
        match columns.as_slice() {
            ["setting", name, _, source, ..] if OF_THE_SESSION.contains(source) => {
                hidden.extend(known(wanted, name).map(|name| (name, (*source).to_owned())));
            }
            ["setting", name, value, source, file, at] => {
                if let Some(name) = known(wanted, name) {
                    let place = match file.is_empty() {
                        true => format!("the server ({source})"),
                        false => format!("{file}:{at}"),
                    };
                    answers.configuration.found.push(found(name, value, place));
                }
            }
            ["file", name, value, file, at] => {
                let shown = hidden.iter().position(|(hidden, _)| hidden == name);
                if let Some(shown) = shown {
                    let (name, _) = hidden.remove(shown);
                    let place = format!("{file}:{at}");
                    answers.configuration.found.push(found(name, value, place));
                }
            }
            ["override", database, role, setting] => {
                answers
                    .overrides
                    .extend(overriding(wanted, database, role, setting));
            }
            _ => {}
        }
    }
    let unread = hidden.into_iter().map(|(name, source)| {
        format!(
            "The server's own {name} is hidden by a setting of this session ({source}): ask as another user."
        )
    });
    answers.configuration.unread.extend(unread);
    Ok(answers)
}

/// Returns the input of psql. A user without the rights sees fewer rows and no files.
fn question(wanted: &[&str]) -> String {
    let names: Vec<String> = wanted.iter().map(|name| format!("'{name}'")).collect();
    let names = names.join(", ");
    format!(
        "SELECT 'setting', name, setting, source, coalesce(sourcefile, ''), coalesce(sourceline, 0)
           FROM pg_catalog.pg_settings WHERE name IN ({names});
         SELECT has_table_privilege('pg_catalog.pg_file_settings', 'select') AS may \\gset
         \\if :may
         SELECT 'file', name, setting, sourcefile, sourceline
           FROM pg_catalog.pg_file_settings WHERE applied AND name IN ({names});
         \\endif
         SELECT 'override', coalesce(d.datname, ''), coalesce(r.rolname, ''), c
           FROM pg_catalog.pg_db_role_setting s CROSS JOIN LATERAL unnest(s.setconfig) AS c
           LEFT JOIN pg_catalog.pg_database d ON d.oid = s.setdatabase
           LEFT JOIN pg_catalog.pg_roles r ON r.oid = s.setrole;\n"
    )
}

fn found(name: &'static str, value: &str, place: String) -> Found {
    Found {
        name,
        value: value.to_owned(),
        place,
    }
}

/// Returns the setting of a role or a database, if it is wanted.
fn overriding(wanted: &[&'static str], database: &str, role: &str, setting: &str) -> Option<Found> {
    let (name, value) = setting.split_once('=')?;
    let place = match (role, database) {
        ("", database) => format!("database {database}"),
        (role, "") => format!("role {role}"),
        (role, database) => format!("role {role} in database {database}"),
    };
    Some(found(known(wanted, name)?, value, place))
}

/// Returns the address for the command line of psql.
fn without_password(url: &Url) -> String {
    let encode = |text: &str| {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
        text.bytes()
            .map(|b| match plain(b) {
                true => char::from(b).to_string(),
                false => format!("%{b:02X}"),
            })
            .collect::<String>()
    };
    let mut text = format!("{}://", url.scheme);
    if !url.user.is_empty() {
        text.push_str(&format!("{}@", encode(&url.user)));
    }
    match url.host.contains(':') {
        true => text.push_str(&format!("[{}]", url.host)),
        false => text.push_str(&encode(&url.host)),
    }
    text.extend(url.port.map(|port| format!(":{port}")));
    text.push_str(&format!("/{}", encode(&url.path)));
    for (n, (name, value)) in url.options.iter().enumerate() {
        let mark = if n == 0 { '?' } else { '&' };
        text.push_str(&format!("{mark}{}={}", encode(name), encode(value)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_has_the_address_without_the_password() {
        for (given, passed) in [
            ("postgres://a:secret@h:5/d?x=y", "postgres://a@h:5/d?x=y"),
            (
                "postgresql:///d?host=/run&password=secret",
                "postgresql:///d?host=%2Frun",
            ),
            ("postgres://%2Frun/d", "postgres://%2Frun/d"),
            ("postgres://[::1]/d", "postgres://[::1]/d"),
        ] {
            let url = Url::parse(given, &["postgres", "postgresql"]).unwrap();
            assert_eq!(without_password(&url), passed);
        }
    }
}
