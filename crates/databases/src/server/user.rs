//! Unprivileged users: servers refuse to run as root.

use logforce_measure::MeasureError;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// A user of the system.
#[derive(Debug, Clone)]
pub struct User {
    /// User name.
    pub name: String,
    /// User number.
    pub uid: u32,
    /// Group number.
    pub gid: u32,
}

impl User {
    /// Returns the first of `names` that exists, or else `nobody`. Returns `None` if this process is not
    /// root's, because servers can then run as its user.
    pub fn unprivileged(names: &[&str]) -> Result<Option<User>, MeasureError> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let user = names.iter().chain(&["nobody"]).find_map(|n| User::named(n));
        let why = match user.as_ref().map(|user| (user, user.become_here())) {
            Some((_, Ok(()))) => return Ok(user),
            Some((user, Err(e))) => {
                format!("this process cannot become the user {}: {e}", user.name)
            }
            None => "there is no user named `nobody`".to_owned(),
        };
        Err(MeasureError::NotOffered(format!(
            "servers do not run as root, and {why}: run this as another user"
        )))
    }

    /// Checks that this process can become the user. It cannot as root of a container that has no other user.
    fn become_here(&self) -> std::io::Result<()> {
        let mut command = Command::new("true");
        command.uid(self.uid).gid(self.gid).status().map(drop)
    }

    /// Returns the user from the system's user database.
    fn named(name: &str) -> Option<User> {
        let number = |flag: &str| {
            let out = Command::new("id").args([flag, name]).output().ok()?;
            let number = String::from_utf8(out.stdout).ok()?.trim().parse().ok()?;
            // Excludes another name of root.
            Some(number).filter(|n: &u32| out.status.success() && *n != 0)
        };
        Some(User {
            name: name.to_owned(),
            uid: number("-u")?,
            gid: number("-g")?,
        })
    }
}
