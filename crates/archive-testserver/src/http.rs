//! The part of HTTP/1.1 that clients of S3 use.

use std::io::{self, BufRead, Read, Write};

/// Longest line of a request.
const MAX_LINE: u64 = 16 << 10;
/// Largest body of a request.
const MAX_BODY: u64 = 512 << 20;

/// Request of a client.
#[derive(Debug, Default)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Path without escapes.
    pub(crate) path: String,
    /// Parameters without escapes.
    pub(crate) query: Vec<(String, String)>,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// Reads the next request of a connection; none at its end.
    pub(crate) fn read(from: &mut impl BufRead) -> io::Result<Option<Request>> {
        let Some(first) = line(from)? else {
            return Ok(None);
        };
        let mut words = first.split(' ');
        let method = words.next().unwrap_or_default().to_owned();
        let target = words.next().unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut request = Request {
            method,
            path: unescape(path),
            ..Request::default()
        };
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            request
                .query
                .push((unescape(name), unescape(&value.replace('+', " "))));
        }
        loop {
            let header = line(from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            if header.is_empty() {
                break;
            }
            let (name, value) = header.split_once(':').ok_or(io::ErrorKind::InvalidData)?;
            let name = name.trim().to_ascii_lowercase();
            request.headers.push((name, value.trim().to_owned()));
        }
        if request.header("transfer-encoding").is_some() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let len: u64 = match request.header("content-length") {
            None => 0,
            Some(len) => len.parse().map_err(|_| io::ErrorKind::InvalidData)?,
        };
        if len > MAX_BODY {
            return Err(io::ErrorKind::InvalidData.into());
        }
        from.take(len).read_to_end(&mut request.body)?;
        if request.body.len() as u64 != len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Some(request))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(n, _)| n == name)
            .map(|(_, value)| &value[..])
    }

    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let mut query = self.query.iter();
        query.find(|(n, _)| n == name).map(|(_, value)| &value[..])
    }
}

/// Answer of the server.
#[derive(Debug, Clone)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn new(status: u16, body: impl Into<Vec<u8>>) -> Response {
        Response {
            status,
            headers: Vec::new(),
            body: body.into(),
        }
    }

    /// Returns an error as S3 words it.
    pub(crate) fn error(status: u16, code: &str) -> Response {
        let text = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>{code}</Code>\
             <Message>answer of the test server</Message></Error>"
        );
        Response::new(status, text)
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Response {
        self.headers.push((name, value.into()));
        self
    }

    /// Writes the answer, or only the first half of it.
    pub(crate) fn write(
        &self,
        to: &mut impl Write,
        has_body: bool,
        is_half: bool,
    ) -> io::Result<()> {
        let mut bytes = format!(
            "HTTP/1.1 {} Status\r\nContent-Length: {}\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n",
            self.status,
            self.body.len()
        )
        .into_bytes();
        for (name, value) in &self.headers {
            bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        if has_body {
            bytes.extend_from_slice(&self.body);
        }
        let len = if is_half {
            bytes.len() / 2
        } else {
            bytes.len()
        };
        to.write_all(&bytes[..len])?;
        to.flush()
    }
}

fn line(from: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    if from.take(MAX_LINE).read_line(&mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(line.trim_end_matches(['\r', '\n']).to_owned()))
}

pub(crate) fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let escaped = (*first == b'%')
            .then(|| std::str::from_utf8(behind.get(..2)?).ok())
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() {
            &behind[2..]
        } else {
            behind
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
