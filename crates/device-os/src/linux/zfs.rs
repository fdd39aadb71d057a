//! Guarantee of a sync on zfs. The mount options do not show it: the property `sync` of the dataset and two
//! parameters of the module decide.

use super::error::uninterrupted_io;
use super::sysfs::{self, Roots};
use logforce_device::{Assessment, Guarantee, Layer, Source, Verdict};
use std::io;
use std::process::{Command, Stdio};

/// Parameters of the module that keep it from flushing its devices.
const NO_FLUSH: [&str; 2] = ["zfs_nocacheflush", "zil_nocacheflush"];

/// Returns the guarantee of a sync of the dataset.
pub fn layer(dataset: &str, roots: &Roots) -> io::Result<Layer> {
    let parameters = roots.sys.join("module/zfs/parameters");
    for parameter in NO_FLUSH {
        let set = sysfs::line(&parameters.join(parameter))?;
        if set.is_some_and(|value| value != "0") {
            let why = format!(
                "the module is set to flush no device ({}/{parameter})",
                parameters.display()
            );
            return Ok(of(
                dataset,
                Guarantee::OsCrash,
                Verdict::Contradicted,
                Source::System,
                why,
            ));
        }
    }
    Ok(match sync_property(dataset, roots)?.as_deref() {
        Some("standard" | "always") => of(
            dataset,
            Guarantee::PowerLoss,
            Verdict::Declared,
            Source::Filesystem,
            "by the word of zfs a sync reaches its devices, and its property `sync` is not `disabled`"
                .to_owned(),
        ),
        Some("disabled") => of(
            dataset,
            Guarantee::ProcessCrash,
            Verdict::Contradicted,
            Source::System,
            "its property `sync` is `disabled`: a sync does nothing".to_owned(),
        ),
        _ => of(
            dataset,
            Guarantee::PowerLoss,
            Verdict::Unknown,
            Source::Nobody,
            format!(
                "it cannot be seen whether its property `sync` is `disabled` (`zfs get sync {dataset}`)"
            ),
        ),
    })
}

fn of(dataset: &str, guarantee: Guarantee, verdict: Verdict, source: Source, why: String) -> Layer {
    let synced = Assessment::new(guarantee, verdict, source, why);
    Layer::new(format!("the zfs {dataset}"), synced)
}

/// Asks the command of zfs, because no file shows the property. `None` if there is no such command, or if it
/// does not know the dataset, as in a container.
fn sync_property(dataset: &str, roots: &Roots) -> io::Result<Option<String>> {
    for program in &roots.zfs {
        let mut command = Command::new(program);
        command
            .args(["get", "-Hp", "-o", "value", "sync", dataset])
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        match uninterrupted_io(|| command.output()) {
            Ok(out) if out.status.success() => {
                let value = String::from_utf8_lossy(&out.stdout).trim().to_owned();
                return Ok(Some(value));
            }
            Ok(_) => {}
            Err(e) if is_not_there(&e) => {}
            Err(e) => return Err(super::error::at(e, "run", program)),
        }
    }
    Ok(None)
}

/// Returns true if the program is missing or may not be run, or if the kernel reaps this process's children.
fn is_not_there(e: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(e.kind(), NotFound | PermissionDenied | NotADirectory)
        || e.raw_os_error() == Some(rustix::io::Errno::CHILD.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_property_decides_where_it_can_be_seen() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        let roots = Roots {
            sys: at("sys"),
            zfs: vec![at("none"), at("zfs")],
            ..Roots::default()
        };
        let is = |guarantee, verdict, source| {
            let a = layer("tank/log", &roots).unwrap().synced;
            let found = (a.guarantee, a.verdict, a.source);
            assert_eq!(found, (guarantee, verdict, source), "{a:?}");
        };
        is(Guarantee::PowerLoss, Verdict::Unknown, Source::Nobody);
        let says = |text: &str| {
            fs::write(at("zfs"), format!("#!/bin/sh\n{text}\n")).unwrap();
            fs::set_permissions(at("zfs"), fs::Permissions::from_mode(0o755)).unwrap();
        };
        let asked = "test \"$*\" = 'get -Hp -o value sync tank/log' &&";
        for value in ["standard", "always"] {
            says(&format!("{asked} echo {value}"));
            is(Guarantee::PowerLoss, Verdict::Declared, Source::Filesystem);
        }
        says(&format!("{asked} echo disabled"));
        is(
            Guarantee::ProcessCrash,
            Verdict::Contradicted,
            Source::System,
        );
        for text in ["echo strange", "echo standard; exit 1"] {
            says(text);
            is(Guarantee::PowerLoss, Verdict::Unknown, Source::Nobody);
        }
        says(&format!("{asked} echo standard"));
        let parameters = at("sys/module/zfs/parameters");
        fs::create_dir_all(&parameters).unwrap();
        for parameter in NO_FLUSH {
            fs::write(parameters.join(parameter), "1\n").unwrap();
            is(Guarantee::OsCrash, Verdict::Contradicted, Source::System);
            fs::write(parameters.join(parameter), "0\n").unwrap();
            is(Guarantee::PowerLoss, Verdict::Declared, Source::Filesystem);
        }
    }
}
