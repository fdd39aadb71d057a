//! Printable forms of the bytes of a record.

use std::fmt::Write;

/// Format of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Data {
    /// Text, with unprintable bytes as \xNN.
    Text,
    /// Hexadecimal digits.
    Hex,
    /// Nothing.
    None,
}

impl Data {
    /// Returns at most `most` of `bytes`; `…` stands for the rest.
    pub fn show(self, bytes: &[u8], most: usize) -> Option<String> {
        let shown = &bytes[..bytes.len().min(most)];
        let mut text = match self {
            Data::None => return None,
            Data::Hex => hex(shown),
            Data::Text => escaped(shown),
        };
        if shown.len() < bytes.len() {
            text.push('…');
        }
        Some(text)
    }
}

pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for b in bytes {
        let _ = write!(text, "{b:02x}");
    }
    text
}

fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                c if c.is_ascii_control() => {
                    let _ = write!(text, "\\x{:02x}", u32::from(c));
                }
                // Other characters that a terminal must not get: direction marks, C1 controls.
                c if c.is_control() || is_invisible(c) => {
                    let _ = write!(text, "\\u{{{:x}}}", u32::from(c));
                }
                c => text.push(c),
            }
        }
        for b in chunk.invalid() {
            let _ = write!(text, "\\x{b:02x}");
        }
    }
    text
}

fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::Data;

    #[test]
    fn a_terminal_sees_no_control_characters() {
        let bytes = b"caf\xc3\xa9 \\ \x1b[2J\n\xff\x00\xe2\x80\xae";
        assert_eq!(
            Data::Text.show(bytes, 99).unwrap(),
            "café \\\\ \\x1b[2J\\n\\xff\\x00\\u{202e}"
        );
        assert_eq!(Data::Text.show(b"abcdef", 3).unwrap(), "abc…");
        assert_eq!(Data::Hex.show(b"\x00\xab", 2).unwrap(), "00ab");
        assert_eq!(Data::None.show(b"x", 2), None);
    }
}
