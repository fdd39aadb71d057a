//! Programs that cargo linked, and a check that they are programs for macOS.

use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Magic number of a 64-bit Mach-O header. The header is little-endian: magic, processor, its variant,
/// kind.
const MAGIC: u32 = 0xfeed_facf;
const ARM64: u32 = 0x0100_000c;
const EXECUTABLE: u32 = 2;

/// A program that cargo linked.
#[derive(Debug, PartialEq, Eq)]
pub struct Program {
    /// Package, as cargo names it, with its version.
    package: String,
    /// Name of its target: of the command, or of the test program.
    name: String,
    /// True for a test program.
    test: bool,
    path: PathBuf,
}

impl Program {
    /// Returns true for the test program of `logforce-device-os`.
    fn tests_system(&self) -> bool {
        self.test && self.name == "all" && self.package.contains("/device-os#")
    }
}

/// Returns the programs in cargo's messages.
pub fn of(messages: &str) -> Vec<Program> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["reason"] == "compiler-artifact")
        .filter_map(|message| {
            Some(Program {
                package: message["package_id"].as_str()?.to_owned(),
                name: message["target"]["name"].as_str()?.to_owned(),
                test: message["profile"]["test"].as_bool()?,
                path: message["executable"].as_str()?.into(),
            })
        })
        .collect()
}

/// Returns the problems of the programs. Missing programs are a problem too.
pub fn wrong(programs: &[Program]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (what, there) in [
        (
            "the command `logforce`",
            programs.iter().any(|p| p.name == "logforce" && !p.test),
        ),
        (
            "the tests of the system calls, including the conformance suite",
            programs.iter().any(Program::tests_system),
        ),
    ] {
        if !there {
            wrong.push(format!("{what} was not linked"));
        }
    }
    for program in programs {
        if let Err(why) = looked_at(&program.path) {
            wrong.push(format!("{}: {why}", program.path.display()));
        }
    }
    wrong
}

fn looked_at(path: &Path) -> Result<(), String> {
    let mut header = [0; 16];
    File::open(path)
        .and_then(|mut file| file.read_exact(&mut header))
        .map_err(|e| e.to_string())?;
    is_executable(&header)
}

fn is_executable(header: &[u8; 16]) -> Result<(), String> {
    let word = |at: usize| {
        u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    match (word(0), word(4), word(12)) {
        (MAGIC, ARM64, EXECUTABLE) => Ok(()),
        (magic, processor, kind) => Err(format!(
            "not a Mach-O executable for arm64: magic {magic:#x}, processor {processor:#x}, \
             kind {kind}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(words: [u32; 4]) -> [u8; 16] {
        let mut header = [0; 16];
        for (bytes, word) in header.chunks_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        header
    }

    #[test]
    fn only_executables_of_that_processor_will_do() {
        assert_eq!(
            is_executable(&header([MAGIC, ARM64, 0, EXECUTABLE])),
            Ok(())
        );
        for other in [
            [0x464c_457f, ARM64, 0, EXECUTABLE],
            [MAGIC, 0x0100_0007, 0, EXECUTABLE],
            [MAGIC, ARM64, 0, 6],
        ] {
            let why = is_executable(&header(other)).unwrap_err();
            assert!(why.contains("not a Mach-O"), "{why}");
        }
    }

    #[test]
    fn programs_are_read_from_cargos_messages() {
        let messages = "   Compiling a v0.1.0\n\
            {\"reason\":\"compiler-artifact\",\"package_id\":\"p\",\"target\":{\"name\":\"a\"},\
             \"profile\":{\"test\":false},\"executable\":null}\n\
            {\"reason\":\"compiler-artifact\",\"package_id\":\"p\",\"target\":{\"name\":\"logforce\"},\
             \"profile\":{\"test\":false},\"executable\":\"/t/logforce\"}\n\
            {\"reason\":\"build-finished\",\"success\":true}\n";
        let read = of(messages);
        assert_eq!(read.len(), 1, "{read:?}");
        assert_eq!(read[0].path, PathBuf::from("/t/logforce"));
        assert!(!read[0].test);
    }

    #[test]
    fn what_is_missing_or_of_another_kind_is_told() {
        let temp = tempfile::TempDir::new().unwrap();
        let program = |name: &str, test, words| {
            let path = temp.path().join(name);
            std::fs::write(&path, header(words)).unwrap();
            Program {
                package: "path+file:///w/crates/device-os#logforce-device-os@0.1.0".to_owned(),
                name: name.to_owned(),
                test,
                path,
            }
        };
        let good = [MAGIC, ARM64, 0, EXECUTABLE];
        let command = program("logforce", false, good);
        let conformance = program("all", true, good);
        assert_eq!(wrong(&[command, conformance]), [""; 0]);
        assert_eq!(wrong(&[]).len(), 2);
        let elf = program("all", true, [0x464c_457f, 0, 0, 0]);
        let gone = Program {
            package: String::new(),
            name: "logforce".to_owned(),
            test: false,
            path: temp.path().join("nowhere"),
        };
        let found = wrong(&[elf, gone]).join("\n");
        assert!(found.contains("0x464c457f"), "{found}");
        assert!(found.contains("nowhere: "), "{found}");
    }
}
