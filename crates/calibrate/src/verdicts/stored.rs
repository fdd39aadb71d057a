//! Runs of power cuts as JSON.

use super::{CutRun, MOST, Place};
use crate::key::LONGEST;
use logforce_device::{ForceBy, Method};
use serde::{Deserialize, Serialize};
use serde_json::Value;

const SCHEMA: &str = "logforce-verdicts";
const VERSION: u32 = 1;

/// Maximum length of a version's name, in bytes.
const LONGEST_TOOL: usize = 60;

#[derive(Serialize, Deserialize)]
struct Document {
    schema: String,
    version: u32,
    /// Runs, the latest last. An entry that cannot be decoded may record a loss: then the file is refused.
    runs: Vec<Value>,
}

#[derive(Serialize, Deserialize)]
struct Run {
    /// Verdict for human readers; programs use `lost`.
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

/// Contents of a file.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Held {
    pub(super) runs: Vec<CutRun>,
    /// Entries of methods that only a newer version knows. They are kept, but not used.
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

/// Decodes a file. Fails with the reason, in words, if any part cannot be decoded.
pub(super) fn decode(bytes: &[u8]) -> Result<Held, String> {
    let document: Document = serde_json::from_slice(bytes)
        .ok()
        .filter(|d: &Document| d.schema == SCHEMA)
        .ok_or("it is damaged, or another kind of file")?;
    if document.version != VERSION {
        return Err(format!(
            "it has version {}, but this program reads version {VERSION}",
            document.version
        ));
    }
    if document.runs.len() > 2 * MOST {
        return Err(format!(
            "it has {} entries, which are too many",
            document.runs.len()
        ));
    }
    let mut held = Held::default();
    for (n, value) in document.runs.into_iter().enumerate() {
        if is_newer(&value) {
            held.newer.push(value);
            continue;
        }
        let run = serde_json::from_value::<Run>(value).ok();
        let run = run.and_then(Run::run);
        held.runs
            .push(run.ok_or_else(|| format!("its entry {} is damaged", n + 1))?);
    }
    Ok(held)
}

/// Returns true if the run can be read back. Otherwise it would make the whole file unreadable.
pub(super) fn can_be_kept(run: &CutRun) -> bool {
    let back = decode(&encode(std::slice::from_ref(run), Vec::new()));
    back.is_ok_and(|held| held.runs == [run.clone()])
}

/// Returns true if the value has the form of an entry, with the name of an unknown method.
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
            // A run proves nothing without a cut, without commits, or if it cannot detect loss.
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
