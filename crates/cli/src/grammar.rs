//! `logforce completions` and `logforce man`: made from the definitions of the flags, so that they cannot
//! tell of others.

use crate::exit::End;
use crate::output::{Sink, cannot_write};
use anyhow::Context;
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man as Page;
use std::path::PathBuf;

const INSTALL: &str = "\
To install:
  bash        logforce completions bash > ~/.local/share/bash-completion/completions/logforce
  zsh         logforce completions zsh > ~/.zfunc/_logforce      (with ~/.zfunc in fpath, before compinit)
  fish        logforce completions fish > ~/.config/fish/completions/logforce.fish
  PowerShell  logforce completions powershell >> $PROFILE";

/// Which shell.
#[derive(Debug, clap::Args)]
#[command(after_help = INSTALL)]
pub struct Completions {
    /// Your shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Where the pages go.
#[derive(Debug, clap::Args)]
#[command(after_help = "To read it at once: logforce man | man -l -")]
pub struct Man {
    /// Write the pages of all commands into DIR, which is made if it is not there
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Prints the script.
pub fn completions(args: Completions, mut grammar: Command) -> anyhow::Result<End> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut grammar, "logforce", &mut script);
    Sink::Stdout.fill(|out| out.write_all(&script))?;
    Ok(End::Done)
}

/// Prints or writes the pages.
pub fn man(args: Man, grammar: Command) -> anyhow::Result<End> {
    let Some(dir) = args.dir else {
        let mut page = Vec::new();
        Page::new(grammar).render(&mut page)?;
        Sink::Stdout.fill(|out| out.write_all(&page))?;
        return Ok(End::Done);
    };
    let failed = || format!("cannot write the manual into {}", dir.display());
    std::fs::create_dir_all(&dir)
        .and_then(|()| clap_mangen::generate_to(grammar, &dir))
        .map_err(|e| cannot_write::with_advice(&dir, e))
        .with_context(failed)?;
    Ok(End::Done)
}
