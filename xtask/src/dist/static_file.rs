//! Checks of a static program of Linux: it needs no library and no loader, is small, and runs where nothing
//! else is.

use super::{output, run};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// Maximum size of the command, bytes.
const LARGEST: u64 = 15_000_000;

/// Type of a program header that names the loader.
const INTERP: u32 = 3;
/// Type of a program header with the dynamic section.
const DYNAMIC: u32 = 2;
/// Tag of an entry of the dynamic section that names a library.
const NEEDED: u64 = 1;

/// Checks the program. Returns what was found, in a sentence.
pub fn check(program: &Path) -> Result<String> {
    let bytes = std::fs::read(program).with_context(|| format!("read {}", program.display()))?;
    needs_nothing(&bytes).with_context(|| program.display().to_string())?;
    let size = bytes.len() as u64;
    ensure!(
        size < LARGEST,
        "{} has {size} bytes, at most {LARGEST} are accepted: strip it, or find what has grown",
        program.display()
    );
    let ran = in_empty_root(program)?;
    Ok(format!(
        "the command is static: it needs no loader and no library; {:.1} MB{}{ran}",
        size as f64 / 1e6,
        libc(program)
    ))
}

/// Returns which C library is part of the program, and what that means.
fn libc(program: &Path) -> &'static str {
    let path = program.to_string_lossy();
    match path.contains("-linux-gnu") {
        true => {
            "; with glibc, so names of hosts are resolved by /etc/hosts and DNS only (for musl: rustup target add)"
        }
        false => "; with musl",
    }
}

/// Runs the program in a directory that contains nothing else. Only root may.
fn in_empty_root(program: &Path) -> Result<&'static str> {
    if !is_root()? {
        return Ok("; not run in an empty root, which needs root");
    }
    let root = program.with_extension("root");
    std::fs::create_dir(&root).with_context(|| format!("create {}", root.display()))?;
    let ran = runs_in(program, &root);
    std::fs::remove_dir_all(&root).with_context(|| format!("remove {}", root.display()))?;
    ran.map(|()| "; it runs in an empty root")
}

fn runs_in(program: &Path, root: &Path) -> Result<()> {
    std::fs::copy(program, root.join("logforce")).context("copy the program")?;
    let chroot = |words: &[&str]| {
        let mut command = Command::new("chroot");
        command.arg(root).arg("/logforce").args(words);
        command
    };
    output(&mut chroot(&["--version"]))?;
    // Measures, so that more than the parser of arguments runs.
    run(&mut chroot(&[
        "bench",
        "--dir",
        "/",
        "--size",
        "1MiB",
        "--seconds",
        "0.3",
        "--quiet",
    ]))
}

fn is_root() -> Result<bool> {
    Ok(output(Command::new("id").arg("-u"))?.trim() == "0")
}

/// Refuses a 64-bit ELF file that names a loader or a library. A static file that can be loaded at any
/// address has a dynamic section too, but without libraries.
fn needs_nothing(bytes: &[u8]) -> Result<()> {
    let elf = Elf(bytes);
    ensure!(
        bytes.starts_with(b"\x7fELF\x02\x01"),
        "not a 64-bit ELF file of a little-endian machine"
    );
    for header in elf.program_headers()? {
        ensure!(header.kind != INTERP, "it names a loader: it is not static");
        if header.kind == DYNAMIC {
            let tags = elf.dynamic(&header)?;
            let needed = tags.iter().filter(|tag| **tag == NEEDED).count();
            ensure!(needed == 0, "it needs {needed} libraries: it is not static");
        }
    }
    Ok(())
}

/// An ELF file, of which only the program headers are read.
struct Elf<'a>(&'a [u8]);

struct Header {
    kind: u32,
    offset: u64,
    size: u64,
}

impl Elf<'_> {
    fn number(&self, at: u64, bytes: usize) -> Result<u64> {
        let at = usize::try_from(at)?;
        let part = self.0.get(at..).and_then(|rest| rest.get(..bytes));
        let part = part.context("the ELF file is cut short")?;
        Ok(part.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b)))
    }

    fn program_headers(&self) -> Result<Vec<Header>> {
        let table = self.number(32, 8)?;
        let (size, count) = (self.number(54, 2)?, self.number(56, 2)?);
        let headers = (0..count).map(|n| {
            let at = table.saturating_add(n * size);
            Ok(Header {
                kind: u32::try_from(self.number(at, 4)?)?,
                offset: self.number(at.saturating_add(8), 8)?,
                size: self.number(at.saturating_add(32), 8)?,
            })
        });
        headers.collect()
    }

    /// Returns the tags of the dynamic section, up to the end mark.
    fn dynamic(&self, header: &Header) -> Result<Vec<u64>> {
        let mut tags = Vec::new();
        for n in 0..header.size / 16 {
            match self.number(header.offset.saturating_add(n * 16), 8)? {
                0 => break,
                tag => tags.push(tag),
            }
        }
        Ok(tags)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_libraries_is_refused() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let refusal = needs_nothing(&own).unwrap_err().to_string();
        assert!(refusal.contains("not static"), "{refusal}");
        // The loader itself needs nothing. Without its header, the libraries are found.
        let elf = Elf(&own);
        let table = elf.number(32, 8).unwrap() as usize;
        let size = elf.number(54, 2).unwrap() as usize;
        let headers = elf.program_headers().unwrap();
        let loader = headers.iter().position(|h| h.kind == INTERP).unwrap();
        let mut without = own.clone();
        without[table + loader * size] = 0;
        let refusal = needs_nothing(&without).unwrap_err().to_string();
        assert!(refusal.contains("libraries"), "{refusal}");
    }

    #[test]
    fn what_is_cut_short_or_something_else_is_refused() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        for bytes in [&b"#!/bin/sh"[..], &own[..64], b""] {
            needs_nothing(bytes).unwrap_err();
        }
    }
}
