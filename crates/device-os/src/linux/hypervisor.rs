//! Hypervisor that runs this system.

use super::sysfs::{self, Roots};
use std::io;

/// Returns the hypervisor in words, such as `QEMU, Standard PC`. `None` if there is none, or if it hides.
pub fn hypervisor() -> io::Result<Option<String>> {
    of(&Roots::default())
}

fn of(roots: &Roots) -> io::Result<Option<String>> {
    let cpus = sysfs::bytes(&roots.proc.join("cpuinfo"))?.unwrap_or_default();
    let cpus = String::from_utf8_lossy(&cpus);
    let flags = cpus.lines().find(|l| l.starts_with("flags"));
    let is_guest = flags.is_some_and(|f| f.split(' ').any(|flag| flag == "hypervisor"));
    let kind = sysfs::line(&roots.sys.join("hypervisor/type"))?;
    if !is_guest && kind.is_none() {
        return Ok(None);
    }
    let dmi = |name: &str| sysfs::line(&roots.sys.join("class/dmi/id").join(name));
    let words: Vec<String> = [kind, dmi("sys_vendor")?, dmi("product_name")?]
        .into_iter()
        .flatten()
        .collect();
    Ok(Some(match words.is_empty() {
        true => "one that does not name itself".to_owned(),
        false => words.join(", "),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_guest_knows_by_its_processors_or_by_xen() {
        let temp = tempfile::tempdir().unwrap();
        let roots = Roots {
            proc: temp.path().join("proc"),
            sys: temp.path().join("sys"),
            ..Roots::default()
        };
        let put = |name: &str, text: &str| {
            let path = temp.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put(
            "proc/cpuinfo",
            "processor\t: 0\nflags\t\t: fpu hypervisors vme\n",
        );
        put("sys/class/dmi/id/sys_vendor", "QEMU\n");
        assert_eq!(of(&roots).unwrap(), None);
        put("proc/cpuinfo", "flags\t\t: fpu hypervisor vme\n");
        assert_eq!(of(&roots).unwrap().as_deref(), Some("QEMU"));
        put("proc/cpuinfo", "");
        put("sys/hypervisor/type", "xen\n");
        assert_eq!(of(&roots).unwrap().as_deref(), Some("xen, QEMU"));
    }
}
