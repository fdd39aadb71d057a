//! Guard process: ends a server and removes its files if this process cannot do so, because of a second
//! Ctrl-C, a crash, or `kill -9`.

use super::Ending;
use logforce_measure::MeasureError;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// Script of the guard. It reads orders from its standard input, which ends when this process does.
/// `done` means that nothing is left to clean up.
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

/// A shell that runs the script and outlives this process.
pub struct Guard {
    child: Child,
    orders: Mutex<Option<ChildStdin>>,
}

impl Guard {
    /// Starts a guard. It removes `paths` if this process ends without sending `done`.
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

    /// Watches a process group: the guard ends the group of leader `pid` by `ending`.
    pub fn watch(&self, pid: u32, ending: Ending) {
        self.say(&format!("watch {pid} {}\n", ending.order(pid)));
    }

    /// Stops watching: the process has ended, and another process may get its number.
    pub fn forget(&self) {
        self.say("forget\n");
    }

    /// Sends an order. If the guard is gone, nothing happens: the server's owner ends it as well.
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
