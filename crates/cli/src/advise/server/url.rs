//! Addresses of servers: `postgres://user:password@host:port/database?option=value`.

use crate::exit::Usage;
use anyhow::bail;

/// An address, taken apart. Its parts are decoded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Url {
    pub scheme: String,
    pub user: String,
    pub password: Option<String>,
    /// Name or address of the host; empty for a local connection. A path is that of a unix socket.
    pub host: String,
    pub port: Option<u16>,
    /// Name of the database.
    pub path: String,
    /// Options behind the question mark.
    pub options: Vec<(String, String)>,
}

impl Url {
    /// Parses an address with one of the schemes.
    pub fn parse(text: &str, schemes: &[&str]) -> anyhow::Result<Url> {
        let example = format!("give {}://USER@HOST/DATABASE", schemes[0]);
        let Some((scheme, rest)) = text.split_once("://") else {
            bail!(Usage(format!("--url: this is not an address: {example}")));
        };
        if !schemes.contains(&scheme) {
            bail!(Usage(format!(
                "--url: addresses of {scheme} are not of this system: {example}"
            )));
        }
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (place, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, host) = place.rsplit_once('@').unwrap_or(("", place));
        let (user, password) = match login.split_once(':') {
            Some((user, password)) => (user, Some(decoded(password))),
            None => (login, None),
        };
        let (host, port) = match host.rsplit_once(':') {
            // The colons of an address of version 6 stand in brackets.
            Some((host, port)) if !port.contains(']') => (host, port),
            _ => (host, ""),
        };
        let port = match port {
            "" => None,
            port => match port.parse() {
                Ok(port) => Some(port),
                Err(_) => bail!(Usage(format!("--url: '{port}' is not a port: {example}"))),
            },
        };
        let option = |text: &str| {
            let (name, value) = text.split_once('=').unwrap_or((text, ""));
            (decoded(name), decoded(value))
        };
        let options = options.split('&').filter(|o| !o.is_empty());
        let mut url = Url {
            scheme: scheme.to_owned(),
            user: decoded(user),
            password,
            host: decoded(host.trim_start_matches('[').trim_end_matches(']')),
            port,
            path: decoded(path),
            options: options.map(option).collect(),
        };
        // A password in an option would end on the client's command line.
        if let Some(at) = url.options.iter().position(|(name, _)| name == "password") {
            url.password = Some(url.options.remove(at).1);
        }
        Ok(url)
    }

    /// Returns true if the server is on another machine.
    pub fn is_remote(&self) -> bool {
        let named = self.options.iter().find(|(name, _)| name == "host");
        let host = named.map_or(self.host.as_str(), |(_, host)| host);
        let is_here = host.is_empty()
            || host.starts_with('/')
            || host == "localhost"
            || host == "::1"
            || host.starts_with("127.");
        !is_here
    }

    /// Returns the value of an option.
    pub fn option(&self, name: &str) -> Option<&str> {
        let found = self.options.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Decodes `%2F` and its like.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        let digit = |b: u8| char::from(b).to_digit(16);
        match (first, behind) {
            (b'%', [high, low, after @ ..]) => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => {
                    bytes.push((high * 16 + low) as u8);
                    rest = after;
                    continue;
                }
                _ => bytes.push(b'%'),
            },
            _ => bytes.push(*first),
        }
        rest = behind;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        let url = Url::parse("mysql://a%40b:s%3Acret@h:33/db?x=%2Fy&z", &["mysql"]).unwrap();
        assert_eq!((url.user.as_str(), url.host.as_str()), ("a@b", "h"));
        assert_eq!(url.password.as_deref(), Some("s:cret"));
        assert_eq!((url.port, url.path.as_str()), (Some(33), "db"));
        assert_eq!(url.option("x"), Some("/y"));
        let url = Url::parse("redis://[::1]:7/0", &["redis"]).unwrap();
        assert_eq!((url.host.as_str(), url.port), ("::1", Some(7)));
        assert!(!url.is_remote());
        let url = Url::parse("postgres:///d?host=/run&password=p%", &["postgres"]).unwrap();
        assert_eq!(url.password.as_deref(), Some("p%"));
        assert!(url.option("password").is_none() && !url.is_remote());
        for (text, is_remote) in [
            ("redis://localhost", false),
            ("redis://%2Frun%2Fsocket/0", false),
            ("redis://127.0.0.1:1", false),
            ("redis://db.example/0", true),
            ("redis://h?host=other", true),
        ] {
            assert_eq!(
                Url::parse(text, &["redis"]).unwrap().is_remote(),
                is_remote,
                "{text}"
            );
        }
        for text in [
            "",
            "nonsense",
            "ftp://h",
            "redis://h:port/",
            "redis://h:99999",
        ] {
            let error = Url::parse(text, &["redis"]).unwrap_err();
            assert!(error.is::<Usage>(), "{text}: {error}");
        }
    }
}
