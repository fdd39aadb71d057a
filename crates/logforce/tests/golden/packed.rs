//! Files of a directory as one text. It leaves out zeroes, which are most of a small log.

use std::fmt::Write;
use std::path::Path;

/// Number of bytes in a line.
const LINE: usize = 32;

pub struct File {
    pub name: String,
    pub bytes: Vec<u8>,
}

/// Returns `file NAME LENGTH` for each file, followed by lines `OFFSET: BYTES` for bytes that are not all
/// zero.
pub fn pack(dir: &Path) -> String {
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    files.sort();
    let mut text = String::new();
    for path in files {
        let bytes = std::fs::read(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        writeln!(text, "file {name} {}", bytes.len()).unwrap();
        for (n, line) in bytes.chunks(LINE).enumerate() {
            let Some(last) = line.iter().rposition(|&b| b != 0) else {
                continue;
            };
            write!(text, "{:x}: ", n * LINE).unwrap();
            for byte in &line[..=last] {
                write!(text, "{byte:02x}").unwrap();
            }
            text.push('\n');
        }
    }
    text
}

/// Returns the files of such a text.
pub fn unpack(text: &str) -> Vec<File> {
    let mut files = Vec::new();
    for (n, line) in text.lines().enumerate() {
        read(line, &mut files).unwrap_or_else(|| panic!("line {}: {line}", n + 1));
    }
    files
}

fn read(line: &str, files: &mut Vec<File>) -> Option<()> {
    if let Some(header) = line.strip_prefix("file ") {
        let (name, len) = header.split_once(' ')?;
        let name = name.to_owned();
        let bytes = vec![0; len.parse().ok()?];
        files.push(File { name, bytes });
        return Some(());
    }
    let (at, hex) = line.split_once(": ")?;
    let at = usize::from_str_radix(at, 16).ok()?;
    let to = files.last_mut()?.bytes.get_mut(at..at + hex.len() / 2)?;
    for (byte, digits) in to.iter_mut().zip(hex.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(())
}
