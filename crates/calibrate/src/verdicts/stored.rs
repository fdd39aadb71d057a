//! Runs of cuts as JSON.

use super::{CutRun, MOST, Place};
use crate::key::LONGEST;
use logforce_device::{ForceBy, Method};
use serde::{Deserialize, Serialize};
use serde_json::Value;

const SCHEMA: &str = "logforce-verdicts";
const VERSION: u32 = 1;

/// Longest name of a version that is believed, in bytes.
const LONGEST_TOOL: usize = 60;

#[derive(Serialize, Deserialize)]
struct Document {
    schema: String,
    version: u32,
    /// The latest last. One that cannot be understood may have recorded a loss: then nothing is read.
    runs: Vec<Value>,
}

#[derive(Serialize, Deserialize)]
struct Run {
    /// For people; what counts is `lost`.
    verdict: String,
    method: String,
    /// 32 hexadecimal digits.
    run: String,
    cuts: u32,
    acknowledged: u64,
    lost: u64,
    control_lost: u64,
    at_unix_ms: u64,
    volume: String,
    filesystem: String,
    mount_options: String,
    model: String,
    kernel: String,
    tool: String,
}

/// What a file holds.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Held {
    pub(super) runs: Vec<CutRun>,
    /// Of methods that only a newer version knows, and so nothing that is used here.
    pub(super) newer: Vec<Value>,
}

pub(super) fn encode(runs: &[CutRun], newer: Vec<Value>) -> Vec<u8> {
    let runs = runs.iter().filter_map(|r| {
        serde_json::to_value(Run {
            verdict: if r.lost == 0 {
                "proven"
            } else {
                "contradicted"
            }
            .to_owned(),
            method: r.method.name().to_owned(),
            run: format!("{:032x}", r.run),
            cuts: r.cuts,
            acknowledged: r.acknowledged,
            lost: r.lost,
            control_lost: r.control_lost,
            at_unix_ms: r.at,
            volume: r.place.volume.clone(),
            filesystem: r.place.filesystem.clone(),
            mount_options: r.place.mount_options.clone(),
            model: r.place.model.clone(),
            kernel: r.kernel.clone(),
            tool: r.tool.clone(),
        })
        .ok()
    });
    let document = Document {
        schema: SCHEMA.to_owned(),
        version: VERSION,
        runs: newer.into_iter().chain(runs).collect(),
    };
    let mut bytes = serde_json::to_vec_pretty(&document).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// What is stored; what speaks against it, in words, where not all of it can be understood.
pub(super) fn decode(bytes: &[u8]) -> Result<Held, String> {
    let document: Document = serde_json::from_slice(bytes)
        .ok()
        .filter(|d: &Document| d.schema == SCHEMA)
        .ok_or("holds something else: it is damaged, or no such file")?;
    if document.version != VERSION {
        return Err(format!(
            "is of version {}: this one reads {VERSION}",
            document.version
        ));
    }
    if document.runs.len() > 2 * MOST {
        return Err(format!("holds {} entries: too many", document.runs.len()));
    }
    let mut held = Held::default();
    for (n, value) in document.runs.into_iter().enumerate() {
        if is_newer(&value) {
            held.newer.push(value);
            continue;
        }
        let run = serde_json::from_value::<Run>(value).ok();
        let run = run.and_then(Run::run);
        held.runs.push(
            run.ok_or_else(|| format!("its entry {} cannot be understood: it is damaged", n + 1))?,
        );
    }
    Ok(held)
}

/// Whether it would be understood when it is read back: else it would spoil the file.
pub(super) fn can_be_kept(run: &CutRun) -> bool {
    let back = decode(&encode(std::slice::from_ref(run), Vec::new()));
    back.is_ok_and(|held| held.runs == [run.clone()])
}

/// Whether it has the form of an entry and the name of a method that is not known.
fn is_newer(value: &Value) -> bool {
    let run = serde_json::from_value::<Run>(value.clone());
    run.is_ok_and(|run| run.method.parse::<Method>().is_err())
}

impl Run {
    fn run(self) -> Option<CutRun> {
        let method: Method = self.method.parse().ok()?;
        let texts = [
            (&self.volume, LONGEST),
            (&self.filesystem, LONGEST),
            (&self.mount_options, LONGEST),
            (&self.model, LONGEST),
            (&self.kernel, LONGEST),
            (&self.tool, LONGEST_TOOL),
        ];
        let is_possible = texts
            .iter()
            .all(|(t, most)| t.len() <= *most && !t.contains(char::is_control))
            && !self.volume.is_empty()
            && self.run.len() == 32
            && self.run.bytes().all(|b| b.is_ascii_hexdigit())
            // Nothing is proven without a cut, without commits, or by a run that cannot see loss.
            && (self.cuts > 0 || self.lost > 0)
            && self.acknowledged > 0
            && self.lost <= self.acknowledged
            && self.control_lost > 0
            && method.plan().force != ForceBy::None;
        if !is_possible {
            return None;
        }
        Some(CutRun {
            place: Place {
                volume: self.volume,
                filesystem: self.filesystem,
                mount_options: self.mount_options,
                model: self.model,
            },
            method,
            run: u128::from_str_radix(&self.run, 16).ok()?,
            cuts: self.cuts,
            acknowledged: self.acknowledged,
            lost: self.lost,
            control_lost: self.control_lost,
            at: self.at_unix_ms,
            kernel: self.kernel,
            tool: self.tool,
        })
    }
}
