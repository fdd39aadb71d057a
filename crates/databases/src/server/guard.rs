//! Ends a server and removes its files when this process has no chance to: after a second Ctrl-C, a
//! crash, or `kill -9`.

use super::Ending;
use logforce_measure::MeasureError;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// Reads what to watch from its standard input, which ends when this process does. `done` alone means
/// that all is in order.
const SCRIPT: &str = r#"
trap '' INT TERM HUP
pid= signal= whom=
while read -r word number name target; do
    case $word in
        watch) pid=$number signal=$name whom=$target ;;
        forget) pid= ;;
        done) exit 0 ;;
    esac
done
if [ -n "$pid" ]; then
    n=0
    while kill -s 0 -- "-$pid" 2>/dev/null && [ $n -lt 100 ]; do
        [ $((n % 5)) -ne 0 ] || kill -s "$signal" -- "$whom" 2>/dev/null
        sleep 0.1
        n=$((n + 1))
    done
    kill -s KILL -- "-$pid" 2>/dev/null
fi
rm -rf "$@"
"#;

/// A shell that outlives this process.
pub struct Guard {
    child: Child,
    orders: Mutex<Option<ChildStdin>>,
}

impl Guard {
    /// Removes `paths` when this process ends without having said `done`.
    pub fn start(paths: &[&Path]) -> Result<Guard, MeasureError> {
        let mut command = Command::new("/bin/sh");
        let child = command
            .args(["-c", SCRIPT, "guard"])
            .args(paths)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        let mut child = child.map_err(MeasureError::io("starting /bin/sh"))?;
        Ok(Guard {
            orders: Mutex::new(child.stdin.take()),
            child,
        })
    }

    /// From now on the group that a process of that number leads is to be ended so.
    pub fn watch(&self, pid: u32, ending: Ending) {
        self.say(&format!("watch {pid} {}\n", ending.order(pid)));
    }

    /// It has ended: its number may be another's.
    pub fn forget(&self) {
        self.say("forget\n");
    }

    /// A guard that is gone cannot be told anything; the server is ended by its owner all the same.
    fn say(&self, words: &str) {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(orders) = orders.as_mut() {
            let _ = orders.write_all(words.as_bytes());
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.say("done\n");
        let orders = self
            .orders
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        drop(orders.take());
        let _ = self.child.wait();
    }
}
