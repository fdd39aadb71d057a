//! A run of another program, with a time limit.

use anyhow::{Context, bail};
use std::io::{ErrorKind, Read, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Longest time that a client may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Largest output that is read, bytes.
const LARGEST: u64 = 1 << 20;

/// Returns a client that is installed: the first of `names`.
pub fn first(names: &[&str], package: &str) -> anyhow::Result<Command> {
    for name in names {
        let version = Command::new(name)
            .arg("--version")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        match version {
            Ok(_) => return Ok(Command::new(name)),
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(e).with_context(|| format!("cannot start {name}")),
        }
    }
    bail!(
        "cannot ask the server: {} is not installed. Install the package {package}, or give --config FILE",
        names.join(" or ")
    )
}

/// Runs a client with `input`, and returns its output. An error has the client's own words.
pub fn run(mut command: Command, input: &str) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {name}"))?;
    let reader = |from: Option<Box<dyn Read + Send>>| {
        thread::spawn(move || {
            let mut text = Vec::new();
            if let Some(from) = from {
                // The part that was read before an error is still of use.
                let _ = from.take(LARGEST).read_to_end(&mut text);
            }
            String::from_utf8_lossy(&text).into_owned()
        })
    };
    let stdout = reader(child.stdout.take().map(|o| Box::new(o) as _));
    let stderr = reader(child.stderr.take().map(|e| Box::new(e) as _));
    if let Some(mut stdin) = child.stdin.take() {
        // A client that ends early says why itself.
        let _ = stdin.write_all(input.as_bytes());
    }
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child
            .try_wait()
            .with_context(|| format!("cannot wait for {name}"))?
        {
            break status;
        }
        if start.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            bail!(
                "{name} did not answer within {} s: check that the server runs and can be reached",
                PATIENCE.as_secs()
            );
        }
        thread::sleep(Duration::from_millis(10));
    };
    let text = |thread: thread::JoinHandle<String>| thread.join().unwrap_or_default();
    let (stdout, stderr) = (text(stdout), text(stderr));
    if !status.success() {
        let why = stderr.trim();
        bail!(
            "{name} cannot ask the server: {}",
            if why.is_empty() {
                "it gave no reason"
            } else {
                why
            }
        );
    }
    Ok(stdout)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn the_client_has_the_input_and_says_why_it_fails() {
        assert_eq!(run(shell("cat"), "a question\n").unwrap(), "a question\n");
        let error = run(shell("echo no such server >&2; exit 3"), "").unwrap_err();
        assert_eq!(
            error.to_string(),
            "sh cannot ask the server: no such server"
        );
        let error = run(shell("exit 3"), &"x".repeat(1 << 20)).unwrap_err();
        assert!(error.to_string().ends_with("it gave no reason"), "{error}");
    }

    #[test]
    fn output_without_end_is_not_kept() {
        let output = run(shell("head -c 5000000 /dev/zero"), "");
        // The client fails when its reader stops, or ends before that.
        assert!(output.is_err() || output.is_ok_and(|o| o.len() as u64 == LARGEST));
    }

    #[test]
    fn a_client_that_is_missing_is_named_with_its_package() {
        let error = first(&["logforce-nosuch", "logforce-none"], "a-package").unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("logforce-nosuch or logforce-none"),
            "{error}"
        );
        assert!(error.contains("package a-package"), "{error}");
        assert!(first(&["logforce-nosuch", "sh"], "a-package").is_ok());
    }
}
