//! Directory of a server.

use super::{Guard, User};
use logforce_measure::MeasureError;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Longest directory of a unix socket, bytes. The whole path may have 107 bytes on Linux and 103 on
/// macOS, and the server appends the name of the socket.
const LONGEST_SOCKET_DIR: usize = 80;

/// A directory in the measured directory, and a directory for sockets in `/tmp` if the first path is too
/// long for them. Both are removed when this is dropped.
pub struct Home {
    path: PathBuf,
    sockets: Option<TempDir>,
    user: Option<User>,
    guard: Guard,
}

impl Home {
    /// Creates `name` in `place`. If this process runs as root, it belongs to the first existing user of
    /// `users`. If this process ends early, the guard removes `place` as well.
    pub fn new(place: &Path, name: &str, users: &[&str]) -> Result<Home, MeasureError> {
        // Servers are started in the directory, where relative paths would have another meaning.
        let place = fs::canonicalize(place)
            .map_err(MeasureError::io(format!("looking for {}", place.display())))?;
        let path = place.join(name);
        let what = format!("making {}", path.display());
        let making = || MeasureError::io(what.clone());
        let user = User::unprivileged(users)?;
        fs::create_dir(&path).map_err(making())?;
        let sockets = match path.as_os_str().len() > LONGEST_SOCKET_DIR {
            true => Some(TempDir::with_prefix_in("logforce-", "/tmp").map_err(making())?),
            false => None,
        };
        let mut paths = vec![&*place];
        paths.extend(sockets.as_ref().map(TempDir::path));
        let guard = Guard::start(&paths)?;
        let home = Home {
            sockets,
            user,
            guard,
            path,
        };
        if let Some(user) = &home.user {
            // Lets the user pass through this directory.
            fs::set_permissions(&place, Permissions::from_mode(0o711)).map_err(making())?;
            for dir in [home.path(), home.sockets()] {
                chown(dir, Some(user.uid), Some(user.gid)).map_err(making())?;
                fs::set_permissions(dir, Permissions::from_mode(0o700)).map_err(making())?;
            }
            home.check_reach(user)?;
        }
        Ok(home)
    }

    fn check_reach(&self, user: &User) -> Result<(), MeasureError> {
        let mut command = Command::new("/bin/sh");
        let status = command
            .args(["-c", "cd \"$1\" && test -w .", "sh"])
            .arg(&self.path)
            .current_dir("/")
            .uid(user.uid)
            .gid(user.gid)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .map_err(MeasureError::io("starting /bin/sh"))?;
        if status.success() {
            return Ok(());
        }
        Err(MeasureError::NotOffered(format!(
            "servers do not run as root, and the user {} has no access to {}: choose another --dir, such as \
                /var/tmp",
            user.name,
            self.path.display()
        )))
    }

    /// Returns the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the directory for sockets.
    pub fn sockets(&self) -> &Path {
        self.sockets.as_ref().map_or(&self.path, TempDir::path)
    }

    /// Returns the user of the server; `None` if it is the user of this process.
    pub fn user(&self) -> Option<&User> {
        self.user.as_ref()
    }

    /// Returns the path of the file with the output of the server's programs.
    pub fn output(&self) -> PathBuf {
        self.path.join("output")
    }

    pub(super) fn guard(&self) -> &Guard {
        &self.guard
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // An error is ignored: the parent directory is removed as well.
        let _ = fs::remove_dir_all(&self.path);
    }
}
