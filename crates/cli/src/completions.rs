//! `logforce completions` and `logforce man`: generated from the definitions of the flags, so that they
//! always match them.

use crate::exit::End;
use crate::output::{Sink, cannot_write};
use anyhow::Context;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{Arg, Command, CommandFactory, FromArgMatches};
use clap_complete::Shell;
use clap_mangen::Man as Page;
use std::path::PathBuf;

const INSTALL: &str = "\
To install:
  bash        logforce completions bash > ~/.local/share/bash-completion/completions/logforce
  zsh         logforce completions zsh > ~/.zfunc/_logforce      (with ~/.zfunc in fpath, before compinit)
  fish        logforce completions fish > ~/.config/fish/completions/logforce.fish
  PowerShell  logforce completions powershell >> $PROFILE";

const NO_ARCHIVE: &str = "this build has no `logforce archive`: install it with \
     `cargo install logforce-cli --features archive`";

/// Returns the arguments of this process. Unusable arguments end the process with status 2.
pub fn parsed<P: CommandFactory + FromArgMatches>() -> P {
    with_negative_numbers(P::command())
        .try_get_matches()
        .and_then(|matches| P::from_arg_matches(&matches))
        .unwrap_or_else(|e| refused(e, P::command()))
}

/// Accepts negative numbers as values of options, so that the error names the valid range. Otherwise `-1` is
/// reported as an unknown option.
fn with_negative_numbers(grammar: Command) -> Command {
    let takes_value = |arg: &Arg| !arg.is_positional() && arg.get_action().takes_values();
    grammar
        .mut_args(|arg| match takes_value(&arg) {
            true => arg.allow_negative_numbers(true),
            false => arg,
        })
        .mut_subcommands(with_negative_numbers)
}

/// Prints the error; for an unknown command it also lists the known ones.
fn refused(e: Error, grammar: Command) -> ! {
    let there_are = (e.kind() == ErrorKind::InvalidSubcommand).then(|| {
        let words: Vec<String> = std::env::args().skip(1).collect();
        listed(&words, &grammar)
    });
    let is_archive = |word: &str| word == "archive" && !cfg!(feature = "archive");
    let is_left_out = (e.kind() == ErrorKind::InvalidSubcommand)
        && matches!(e.get(ContextKind::InvalidSubcommand), Some(ContextValue::String(word)) if is_archive(word));
    if is_left_out {
        eprintln!("error: {NO_ARCHIVE}");
        std::process::exit(e.exit_code());
    }
    let _ = e.print();
    if let Some(there_are) = there_are {
        eprintln!("{there_are}");
    }
    std::process::exit(e.exit_code());
}

/// Lists the subcommands of the command that the words name.
fn listed(words: &[String], grammar: &Command) -> String {
    let mut place = grammar;
    for word in words.iter().filter(|w| !w.starts_with('-')) {
        let Some(deeper) = place.find_subcommand(word) else {
            break;
        };
        place = deeper;
    }
    let shown = place.get_subcommands().filter(|c| !c.is_hide_set());
    let names: Vec<&str> = shown.map(Command::get_name).collect();
    format!("\nAvailable commands: {}.", names.join(", "))
}

/// The shell to print a script for.
#[derive(Debug, clap::Args)]
#[command(after_help = INSTALL)]
pub struct Completions {
    /// Your shell
    #[arg(value_enum)]
    shell: Shell,
}

/// The destination of the manual pages.
#[derive(Debug, clap::Args)]
#[command(after_help = "To read the page: logforce man | man -l -")]
pub struct Man {
    /// Write the pages of all commands into DIR, which is created if it is missing
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_at_a_place_is_listed() {
        let grammar = Command::new("a")
            .subcommand(Command::new("b").subcommand(Command::new("c")))
            .subcommand(Command::new("secret").hide(true))
            .subcommand(Command::new("d"));
        let listed = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
            listed(&words, &grammar)
        };
        assert_eq!(listed(&["x"]), "\nAvailable commands: b, d.");
        assert_eq!(listed(&["--quiet", "b", "x"]), "\nAvailable commands: c.");
    }
}
