//! Recorded storage stacks, with the verdict that an expert expects: see `tests/stacks/README.md`.

use super::recorded::{Answers, Recorded, identify, mode_sense};
use super::*;
use crate::linux::ask::ask_by;
use serde_json::{Map, Value};
use std::path::PathBuf;

type Keys = Map<String, Value>;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stacks")
}

fn text<'a>(of: &'a Keys, key: &str) -> Option<&'a str> {
    of.get(key).and_then(Value::as_str)
}

/// Returns the kernel's name of the state of a cache.
fn cache(of: &Keys) -> &'static str {
    let said = text(of, "write_cache").or(text(of, "kernel_assumes"));
    match said.unwrap_or_else(|| panic!("no write cache in {of:?}")) {
        "enabled" | BACK => BACK,
        said if said == "disabled" || said.starts_with(THROUGH) => THROUGH,
        said => panic!("a write cache that is {said}"),
    }
}

/// Returns the folder of a device below `/sys/devices`.
fn path(name: &str, of: &Keys) -> String {
    match text(of, "path") {
        Some(path) => path.to_owned(),
        None if name.starts_with("nvme") => {
            format!("pci0000:00/0000:00:01.0/nvme/nvme0/{name}")
        }
        None if name.starts_with("vd") => format!("pci0000:00/0000:00:02.0/virtio1/block/{name}"),
        None if name.starts_with("sd") => {
            format!("pci0000:00/0000:00:03.0/ata1/host0/target0:0:0/0:0:0:0/block/{name}")
        }
        None => format!("virtual/block/{name}"),
    }
}

/// Makes the files and the answers of a device.
fn device(world: &World, name: &str, of: &Keys, answers: &mut Recorded) -> String {
    let path = path(name, of);
    let place = world.device(&path, cache(of));
    let put =
        |file: &str, value: &str| world.put(&format!("{place}/{file}"), &format!("{value}\n"));
    for (key, file) in [
        ("fua", "queue/fua"),
        ("rotational", "queue/rotational"),
        ("dpo_fua", "queue/fua"),
        ("lbs", "queue/logical_block_size"),
        ("logical_block", "queue/logical_block_size"),
        ("pbs", "queue/physical_block_size"),
        ("physical_block", "queue/physical_block_size"),
        ("model", "device/model"),
        ("vendor", "device/vendor"),
        ("cache_mode", "bcache/cache_mode"),
    ] {
        let value = match of.get(key) {
            Some(Value::Number(n)) => n.to_string(),
            Some(Value::Bool(is)) => u8::from(*is).to_string(),
            Some(Value::String(s)) if key == "cache_mode" => format!("writethrough [{s}]"),
            Some(Value::String(s)) if key != "fua" => s.clone(),
            _ => continue,
        };
        put(file, &value);
    }
    let mut own = Answers::default();
    if name.starts_with("nvme") {
        let vwc = of.get("vwc").and_then(Value::as_u64).unwrap_or(0);
        own.identify = Some(identify(vwc == 1));
        own.nvme_cache = of
            .get("wce")
            .and_then(Value::as_u64)
            .or(Some(vwc))
            .map(|n| n as u32);
    } else if name.starts_with("sd") {
        put("device/scsi_disk/0:0:0:0/cache_type", cache(of));
        let header = text(of, "mode_sense").unwrap_or("00 00 00 00");
        let device_specific = header.split(' ').nth(2).unwrap();
        let device_specific = u8::from_str_radix(device_specific, 16).unwrap();
        let is_on = match text(of, "caching_mode_page") {
            Some("none") => None,
            Some(page) => Some(page == "on"),
            None => Some(cache(of) == BACK),
        };
        own.mode_sense = is_on.map(|is_on| mode_sense(is_on, device_specific));
    } else if name.starts_with("vd") {
        put("cache_type", cache(of));
        let features = of.get("virtio_features").and_then(Value::as_array);
        let has = |n: u64| features.is_some_and(|f| f.contains(&n.into()));
        let bits: String = (0..64).map(|n| if has(n) { '1' } else { '0' }).collect();
        put("device/features", &bits);
    } else if let Some(minor) = name.strip_prefix("dm-") {
        put("dev", &format!("253:{minor}"));
        let targets = of.get("dm_targets").and_then(Value::as_array).unwrap();
        own.targets = Some(
            targets
                .iter()
                .map(|t| t.as_str().unwrap().to_owned())
                .collect(),
        );
    }
    if let Some(driver) = text(of, "driver").filter(|_| name.starts_with("sd")) {
        let host = path.split("/host").next().unwrap().to_owned() + "/host0/scsi_host/host0";
        world.put(&format!("sys/devices/{host}/proc_name"), driver);
    }
    answers.devices.insert(name.to_owned(), own);
    for (part, of) in of
        .get("parts")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        device(world, part, of.as_object().unwrap(), answers);
        world.put(&format!("{place}/slaves/{part}"), "");
    }
    place
}

/// Makes the stack of a case. Returns the facts after asking, unless the case leaves that out.
fn facts_of(facts: &Keys, case: &Value) -> Facts {
    let mut all = facts.clone();
    all.extend(case["made_up"].as_object().unwrap().clone());
    let mut world = World::new();
    world.put("proc/sys/kernel/random/boot_id", "0d3a\n");
    let name = text(&all, "device").unwrap().to_owned();
    let mut recorded = Recorded::default();
    match text(&all, "filesystem") {
        // A zfs makes up its number, which the test's directory cannot have.
        Some("zfs") => {
            let kind = filesystem::kind("zfs", "");
            let mut facts = Facts::new(logforce_device::Platform::Linux, "zfs", kind);
            facts.direct = Some(DirectAlignment {
                memory: 512,
                offset: 512,
            });
            facts.barriers = Some(true);
            facts.layers = vec![crate::linux::zfs::layer(&name, &world.roots).unwrap()];
            return facts;
        }
        _ => {
            world.mounted("xfs", &format!("/dev/{name}"), "rw");
            let place = device(&world, &name, &all, &mut recorded);
            world.is_below(&place);
        }
    }
    let recorded = Arc::new(recorded);
    world.roots.commands = Arc::<Recorded>::clone(&recorded);
    let unasked = world.facts().unwrap();
    assert_eq!(
        recorded.sent.load(std::sync::atomic::Ordering::Relaxed),
        0,
        "an opening sends no command"
    );
    if case["asked"] == false {
        return unasked;
    }
    ask_by(&unasked.layers, false, &world.roots).unwrap();
    world.facts().unwrap()
}

#[test]
fn each_recorded_stack_is_judged_as_an_expert_does() {
    let mut cases = 0;
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "json") {
            continue;
        }
        let stack: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        for case in stack["cases"].as_array().unwrap() {
            let facts = facts_of(stack["facts"].as_object().unwrap(), case);
            let about = format!("{}: {}", stack["id"], case["name"]);
            for (method, expected) in match &case["expect"] {
                Value::Object(expect) => expect,
                _ => stack["expert"].as_object().unwrap(),
            } {
                let Ok(method) = method.parse::<Method>() else {
                    continue;
                };
                let of = |n: usize, key: &str| expected.get(key).or(expected.get(n)).cloned();
                let (survives, verdict) = (of(0, "survives").unwrap(), of(1, "verdict").unwrap());
                let Some(found) = facts.assess(method, FileState::Zeroed) else {
                    assert!(
                        cfg!(target_arch = "aarch64") || facts.direct.is_none(),
                        "{about}"
                    );
                    continue;
                };
                assert_eq!(
                    (found.guarantee.name(), found.verdict.name()),
                    (survives.as_str().unwrap(), verdict.as_str().unwrap()),
                    "{about}, {method}: {found:?} {facts:#?}"
                );
            }
            for note in case["notes"].as_array().into_iter().flatten() {
                let note = note.as_str().unwrap();
                assert!(
                    facts.notes.iter().any(|n| n.contains(note)),
                    "{about}: {:?}",
                    facts.notes
                );
            }
            cases += 1;
        }
    }
    assert!(cases >= 30, "{cases} cases");
}
