//! Cases that are kept, with a script that runs the check on them.

use crate::plan::Plan;
use crate::program::write_lines;
use crate::report::Loss;
use anyhow::Result;
use std::fs;
use std::path::Path;

/// Writes the acknowledged and the announced lines of a case, and a script that runs the check on a copy. `prepare` has
/// lines for `sh` that make the directory `$work/DATA` of what is in `$here`.
pub(crate) fn write(
    dir: &Path,
    (acked, begun): &(Vec<String>, Vec<String>),
    loss: &Loss,
    plan: &Plan,
    prepare: &str,
    data: &str,
) -> Result<()> {
    write_lines(&dir.join("acked"), acked)?;
    write_lines(&dir.join("begun"), begun)?;
    let message = loss.message.replace(['\n', '\r'], " ");
    let cwd = std::env::current_dir().unwrap_or_default();
    let cwd = cwd.display().to_string().replace('\'', r"'\''");
    let (filesystem, acked, check) = (loss.filesystem, loss.acked, plan.check.line());
    // The paths replace the placeholders as text, as they do in the test: a check may have them within quotes.
    let script = format!(
        r#"#!/bin/sh
# Runs the check on a copy of what was left.
# {filesystem} after {acked} acknowledgements: {message}
set -eu
here=$(cd "$(dirname "$0")" && pwd)
# A path without spaces, whatever TMPDIR is: CHECK contains it.
work=$(TMPDIR=/tmp mktemp -d)
trap 'umount "$work/mnt" 2>/dev/null || true; rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM
cp "$here/acked" "$here/begun" "$work"
{prepare}
export CRASHTEST_DIR="$work/{data}" CRASHTEST_ACKED="$work/acked" CRASHTEST_BEGUN="$work/begun"
sed "s|{{acked}}|$work/acked|g; s|{{}}|$work/{data}|g" > "$work/check" << 'END OF CHECK'
{check}
END OF CHECK
# CHECK may name files from where the test began.
cd '{cwd}' 2>/dev/null || true
status=0
sh "$work/check" < "$work/acked" || status=$?
echo "the check exited with $status"
exit $status
"#
    );
    Ok(fs::write(dir.join("check.sh"), script)?)
}
