//! Filesystems of a run: the directory itself, and filesystems in images in that directory.

use super::flags::{Flags, NO_LOOP};
use super::place::Ground;
use anyhow::{Context, Result, bail};

/// A filesystem of a run.
pub struct Filesystem {
    /// Name on the command line.
    pub name: String,
    /// Title of its tables.
    pub title: String,
    /// Working directory on it.
    pub ground: Ground,
}

/// Creates all filesystems that the flags name, in their order.
///
/// # Errors
/// If a filesystem cannot be created, or is named twice.
pub fn all(flags: &Flags) -> Result<Vec<Filesystem>> {
    let names = &flags.filesystems;
    if let Some(twice) = names
        .iter()
        .enumerate()
        .find(|(at, n)| names[..*at].contains(n))
    {
        bail!("--loop names {} twice: leave one out", twice.1);
    }
    names.iter().map(|name| of(name, flags)).collect()
}

fn of(name: &str, flags: &Flags) -> Result<Filesystem> {
    let kind = (name != NO_LOOP).then_some((name, flags.loop_size));
    let ground = Ground::new(&flags.common.dir, kind)
        .with_context(|| format!("cannot measure on `{name}`"))?;
    ground.write_all_blocks()?;
    let title = if kind.is_some() {
        format!("{name} in an image")
    } else {
        "in the directory itself".to_owned()
    };
    Ok(Filesystem {
        name: name.to_owned(),
        title,
        ground,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn flags(list: &str) -> Flags {
        Flags::parse_from([
            "rivals",
            "--dir",
            env!("CARGO_MANIFEST_DIR"),
            "--loop",
            list,
        ])
    }

    #[test]
    fn the_directory_itself_is_one_and_no_other_is_taken_twice() {
        let only = all(&flags(NO_LOOP)).unwrap();
        assert_eq!((only.len(), only[0].name.as_str()), (1, NO_LOOP));
        assert!(!only[0].ground.is_own_device());
        for bad in ["none,none", "none,no-such-filesystem"] {
            assert!(all(&flags(bad)).is_err(), "{bad}");
        }
    }
}
