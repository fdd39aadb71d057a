//! Examination of the storage below a directory: what each layer reports, where that was read, what a commit
//! survives, and short tests of it.

mod conclusion;
mod methods;
pub mod next;
mod sentences;
pub mod trial;

pub use conclusion::{Conclusion, Severity};
pub use methods::{Cuts, MethodLine, Worth};
use next::Next;
pub use trial::Test;

use crate::machine::Machine;
use logforce_device::{
    Assessment, Barrier, Facts, FileState, FilesystemKind, ForceBy, Layer, Plan, Platform,
};
use serde::Serialize;

/// Result of one examination. Field names are kept compatible; see `docs/cli-json.md`.
#[derive(Debug, Serialize)]
pub struct Doctor {
    /// `logforce-doctor`.
    pub schema: &'static str,
    /// Version of the fields.
    pub version: u32,
    /// Command line.
    pub command: String,
    /// Path, as it was given.
    pub path: String,
    /// Kind of the path: `directory`, `file` or `device`.
    pub target: &'static str,
    /// Platform whose methods are listed.
    pub platform: &'static str,
    /// Guarantee of a commit, and the next steps.
    pub conclusion: Conclusion,
    /// The filesystem and all layers below it, depth first.
    pub stack: Vec<StackLayer>,
    /// Devices that were asked about their caches, or the reason why not.
    pub asked: Vec<Question>,
    /// Short tests in the directory; empty if none were made.
    pub tests: Vec<Test>,
    /// Reason why no tests were made.
    pub untested: Option<String>,
    /// Answer about FUA, as a sentence.
    pub fua: String,
    /// Answer about atomic writes, as a sentence.
    pub atomic: String,
    /// Answer about power-loss protection, as a sentence.
    pub protection: String,
    /// Answer about zeroes by the device, as a sentence.
    pub zeroes: String,
    /// Hypervisor that runs this system, in words; null if there is none, or if it hides.
    pub hypervisor: Option<String>,
    /// Atomic writes to a file here; null if there are none.
    pub atomic_write: Option<Atomic>,
    /// Every method of this system.
    pub methods: Vec<MethodLine>,
    /// Method that is used without measuring.
    pub default: &'static str,
    /// Reason for the default.
    pub default_why: String,
    /// Method that a log opened here now would use.
    pub next: Next,
    /// Results of power cuts.
    pub power_cuts: Vec<Cuts>,
    /// Reasons for which some of them cannot be read, with the remedy. A loss may be recorded there.
    pub power_cuts_unread: Vec<String>,
    /// System, filesystem and device.
    pub machine: Machine,
    /// Kind of the filesystem, by what it does with a write.
    pub kind: &'static str,
    /// Identity of the filesystem; null if unknown.
    pub volume: Option<String>,
    /// True if that stays the same as long as the filesystem exists, so that evidence can be stored.
    pub volume_lasts: bool,
    /// Size of the filesystem in bytes.
    pub capacity: Option<u64>,
    /// Alignment that direct I/O needs; null if direct I/O is not offered.
    pub direct: Option<Direct>,
}

/// Alignment in bytes.
#[derive(Debug, Serialize)]
pub struct Direct {
    /// Alignment of the memory address.
    pub memory: u32,
    /// Alignment of offset and length.
    pub offset: u32,
}

/// Atomic writes, in bytes.
#[derive(Debug, Serialize)]
pub struct Atomic {
    /// Smallest atomic write.
    pub unit_min: u32,
    /// Largest atomic write.
    pub unit_max: u32,
}

/// One layer of the stack.
#[derive(Debug, Serialize)]
pub struct StackLayer {
    /// Number of layers above it.
    pub level: u32,
    /// Name of the layer.
    pub name: String,
    /// Kind of the layer, in a few words.
    pub about: String,
    /// Properties that it reports.
    pub readings: Vec<Read>,
    /// Guarantee of a sync that this layer alone gives.
    pub survives: &'static str,
    /// Verdict on that guarantee.
    pub verdict: &'static str,
    /// Party that the verdict rests on.
    pub source: &'static str,
    /// Evidence for the verdict.
    pub evidence: String,
}

/// One property, and the file or command that it was read from.
#[derive(Debug, Serialize)]
pub struct Read {
    /// Name of the property.
    pub what: String,
    /// Value as it was read.
    pub value: String,
    /// File or command.
    pub from: String,
}

/// A device that was asked about its cache.
#[derive(Debug, Serialize)]
pub struct Question {
    /// Kernel name of the device.
    pub device: String,
    /// Command and answer; null if there is none.
    pub answer: Option<String>,
    /// Reason why there is none; null if there is one.
    pub why_not: Option<String>,
}

/// Everything that the examination found out, apart from the facts.
pub struct Findings {
    /// Command line.
    pub command: String,
    /// Path, as it was given.
    pub path: String,
    /// Kind of the path.
    pub target: &'static str,
    /// System, filesystem and device.
    pub machine: Machine,
    /// Hypervisor that runs this system.
    pub hypervisor: Option<String>,
    /// Devices that were asked.
    pub asked: Vec<Question>,
    /// Tests, or the reason why there are none.
    pub tests: Result<Vec<Test>, String>,
}

impl Doctor {
    /// Builds the result from the facts and the findings. `next` is the method that a log would use.
    pub fn new(facts: &Facts, next: Next, findings: Findings) -> Doctor {
        let (tests, untested) = match findings.tests {
            Ok(tests) => (tests, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        let methods = facts.platform.methods().iter();
        let mut doctor = Doctor {
            schema: "logforce-doctor",
            version: 1,
            command: findings.command,
            path: findings.path,
            target: findings.target,
            platform: facts.platform.name(),
            conclusion: Conclusion::new(facts, &next, &tests),
            stack: stack(facts),
            asked: findings.asked,
            tests,
            untested,
            fua: sentences::fua(facts),
            atomic: sentences::atomic(facts),
            protection: sentences::protection(facts),
            zeroes: sentences::zeroes(facts),
            hypervisor: findings.hypervisor,
            atomic_write: facts.atomic_write.map(|a| Atomic {
                unit_min: a.unit_min,
                unit_max: a.unit_max,
            }),
            methods: methods.map(|&m| MethodLine::new(facts, m)).collect(),
            default: facts.default_method().name(),
            default_why: facts.why_default(),
            next,
            power_cuts: Cuts::of(facts),
            power_cuts_unread: facts.unread.clone(),
            machine: findings.machine,
            kind: facts.kind.name(),
            volume: Some(facts.volume.clone()).filter(|v| !v.is_empty()),
            volume_lasts: facts.lasting_volume().is_some(),
            capacity: facts.capacity,
            direct: facts.direct.map(|d| Direct {
                memory: d.memory,
                offset: d.offset,
            }),
        };
        doctor.clean();
        doctor
    }

    /// Cleans all texts that a device, a mount or a path may have chosen. Otherwise the name of a mount point could
    /// forge a line of the output.
    fn clean(&mut self) {
        let m = &mut self.machine;
        let c = &mut self.conclusion;
        let of_layers = self.stack.iter_mut().flat_map(|l| {
            let of_readings = l
                .readings
                .iter_mut()
                .flat_map(|r| [&mut r.value, &mut r.from]);
            [&mut l.name, &mut l.about, &mut l.evidence]
                .into_iter()
                .chain(of_readings)
        });
        let of_methods = self.methods.iter_mut().flat_map(|m| &mut m.evidence);
        let asked = self.asked.iter_mut();
        let of_asked = asked.flat_map(|a| a.answer.iter_mut().chain(&mut a.why_not));
        let of_tests = self
            .tests
            .iter_mut()
            .flat_map(|t| [&mut t.question, &mut t.finding]);
        [
            &mut self.path,
            &mut self.fua,
            &mut self.atomic,
            &mut self.zeroes,
            &mut c.sentence,
            &mut m.mount_point,
            &mut m.directory,
            &mut m.mount_options,
        ]
        .into_iter()
        .chain(&mut c.advice)
        .chain(&mut m.notes)
        .chain(&mut m.model)
        .chain(&mut self.next.evidence)
        .chain(of_layers)
        .chain(of_methods)
        .chain(of_asked)
        .chain(of_tests)
        .for_each(|text| *text = text.replace(char::is_control, "\u{fffd}"));
    }
}

/// Returns the filesystem, and the layers below it.
fn stack(facts: &Facts) -> Vec<StackLayer> {
    let mut layers = Vec::new();
    if let Some(own) = own(facts) {
        let name = match &*facts.mount_point {
            "" => facts.filesystem.clone(),
            point => format!("{} on {point}", facts.filesystem),
        };
        let mut layer = StackLayer::new(0, name, in_words(facts.kind), &own);
        if !facts.mount_options.is_empty() {
            layer.readings.push(Read {
                what: "mount options".to_owned(),
                value: facts.mount_options.clone(),
                from: match facts.platform {
                    Platform::Linux => "/proc/self/mountinfo, /proc/fs",
                    _ => "the system",
                }
                .to_owned(),
            });
        }
        layers.push(layer);
    }
    layers.extend(facts.layers.iter().map(StackLayer::of));
    if let Some(device) = facts.device.as_ref().filter(|_| facts.layers.is_empty()) {
        let whole = sync(facts);
        let mut layer = StackLayer::new(1, device.name.clone(), &device.model, &whole);
        for (what, value) in [
            (
                "write cache",
                Some(format!("{:?}", device.write_cache).to_lowercase()),
            ),
            ("write-through", device.fua.map(|fua| fua.to_string())),
            (
                "logical sector, bytes",
                Some(device.logical_sector.to_string()),
            ),
            (
                "physical sector, bytes",
                Some(device.physical_sector.to_string()),
            ),
        ] {
            layer.readings.extend(value.map(|value| Read {
                what: what.to_owned(),
                value,
                from: "the system".to_owned(),
            }));
        }
        layers.push(layer);
    }
    layers
}

/// Returns the guarantee of a sync that the filesystem alone gives; `None` for a device without a filesystem.
fn own(facts: &Facts) -> Option<Assessment> {
    if facts.filesystem == "block device" {
        return None;
    }
    let mut own = facts.clone();
    own.device = None;
    own.layers = vec![Layer::passing("", "")];
    Some(sync(&own))
}

fn sync(facts: &Facts) -> Assessment {
    let sync = Plan {
        direct: false,
        force: ForceBy::Barrier(Barrier::Data),
    };
    let assessed = facts.assess_plan(sync, FileState::Zeroed);
    assessed.unwrap_or_else(|| facts.write_through())
}

impl StackLayer {
    fn new(level: u32, name: String, about: &str, synced: &Assessment) -> StackLayer {
        StackLayer {
            level,
            name,
            about: about.to_owned(),
            readings: Vec::new(),
            survives: synced.granted().name(),
            verdict: synced.verdict.name(),
            source: synced.source.name(),
            evidence: synced.evidence.clone(),
        }
    }

    fn of(layer: &Layer) -> StackLayer {
        let mut own = StackLayer::new(layer.level, layer.name.clone(), &layer.about, &layer.synced);
        let read = |r: &logforce_device::Reading| Read {
            what: r.what.clone(),
            value: r.value.clone(),
            from: r.from.clone(),
        };
        own.readings = layer.readings.iter().map(read).collect();
        own
    }
}

fn in_words(kind: FilesystemKind) -> &'static str {
    match kind {
        FilesystemKind::InPlace => "overwrites in place",
        FilesystemKind::Relocating => "does not overwrite in place",
        FilesystemKind::Volatile => "keeps files in memory",
        FilesystemKind::Remote => "is on another machine",
        _ => "it is not known what it does with a write",
    }
}
