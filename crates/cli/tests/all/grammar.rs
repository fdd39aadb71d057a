//! `completions` and `man`: they cover every command.

use crate::common::{place, text};
use logforce_testkit::process::Start;
use std::fs;
use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_logforce"));
    command.args(arguments).to_end().unwrap()
}

/// Returns the commands that the help lists.
fn commands() -> Vec<String> {
    let help = text(&run(&["--help"]).stdout);
    let (_, list) = help.split_once("Commands:").unwrap();
    let (list, _) = list.split_once("Options:").unwrap();
    let named = list
        .lines()
        .filter(|l| l.starts_with("  ") && !l.starts_with("   "));
    let names = named.filter_map(|l| l.split_whitespace().next());
    let names: Vec<String> = names.filter(|n| *n != "help").map(str::to_owned).collect();
    assert!(names.len() > 10, "{names:?}");
    names
}

#[test]
fn every_shell_gets_a_script_with_every_command() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let out = run(&["completions", shell]);
        assert!(out.status.success(), "{}", text(&out.stderr));
        let script = text(&out.stdout);
        for name in commands() {
            assert!(script.contains(&name), "{shell}: {name}");
        }
        assert!(
            script.contains("fail-above") && script.contains("file-state"),
            "{shell}"
        );
    }
    let out = run(&["completions", "dos"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(
        text(&out.stderr).contains("possible values: bash"),
        "{}",
        text(&out.stderr)
    );
}

#[cfg(unix)]
#[test]
fn a_shell_completes_by_it() {
    let Ok(bash) = Command::new("bash").arg("--version").to_end() else {
        return logforce_testkit::skip!("no bash");
    };
    assert!(bash.status.success());
    let dir = place();
    let script = dir.path().join("script");
    fs::write(&script, run(&["completions", "bash"]).stdout).unwrap();
    let ask = "source \"$0\"; COMP_WORDS=(logforce ver); COMP_CWORD=1; _logforce logforce ver logforce; echo ${COMPREPLY[@]}";
    let mut asked = Command::new("bash");
    let out = asked.args(["-c", ask]).arg(&script).to_end().unwrap();
    assert_eq!(text(&out.stdout).trim(), "verify", "{}", text(&out.stderr));
}

#[test]
fn every_command_has_a_page() {
    let out = run(&["man"]);
    assert!(
        text(&out.stdout).contains(".TH logforce 1"),
        "{}",
        text(&out.stdout)
    );
    let dir = place();
    let into = dir.path().join("man");
    let out = run(&["man", into.to_str().unwrap()]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    for name in commands() {
        let page = into.join(format!("logforce-{name}.1"));
        let page = fs::read_to_string(&page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
        assert!(page.contains(".SH SYNOPSIS"), "{name}");
    }
    let out = run(&["man", env!("CARGO_BIN_EXE_logforce")]);
    assert_eq!(out.status.code(), Some(4));
    assert!(
        text(&out.stderr).contains("cannot write the manual"),
        "{}",
        text(&out.stderr)
    );
    let said = text(&out.stderr);
    let advice = "it exists and is not a directory: name a directory, new or existing";
    assert!(said.contains(advice), "{said}");
}

#[cfg(not(feature = "archive"))]
#[test]
fn archives_take_another_build() {
    let out = run(&["archive", "list", "x"]);
    assert_eq!(out.status.code(), Some(2));
    let said = text(&out.stderr);
    let advice = "cargo install logforce-cli --features archive";
    assert!(said.contains(advice), "{said}");
    assert!(!commands().contains(&"archive".to_owned()));
    // A misspelt command is another matter.
    let said = text(&run(&["archiv"]).stderr);
    assert!(!said.contains("--features"), "{said}");
}
