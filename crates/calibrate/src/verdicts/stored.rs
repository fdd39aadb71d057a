//! Runs of cuts as JSON.

use super::{CutRun, MOST, Place};
use crate::key::LONGEST;
use logforce_device::{ForceBy, Method};
use serde::{Deserialize, Serialize};

const SCHEMA: &str = "logforce-verdicts";
const VERSION: u32 = 1;

/// Longest name of a version that is believed, in bytes.
const LONGEST_TOOL: usize = 60;

#[derive(Serialize, Deserialize)]
struct Document {
    schema: String,
    version: u32,
    /// The latest last. Each is read by itself: one that cannot be understood is left out.
    runs: Vec<serde_json::Value>,
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

pub(super) fn encode(runs: &[CutRun]) -> Vec<u8> {
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
        runs: runs.collect(),
    };
    let mut bytes = serde_json::to_vec_pretty(&document).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

fn document(bytes: &[u8]) -> Option<Document> {
    let document: Document = serde_json::from_slice(bytes).ok()?;
    let is_ours = document.schema == SCHEMA && document.version == VERSION;
    is_ours.then_some(document)
}

/// Whether it has the form of such a file, whatever it holds.
pub(super) fn is_ours(bytes: &[u8]) -> bool {
    document(bytes).is_some()
}

pub(super) fn decode(bytes: &[u8]) -> Vec<CutRun> {
    let runs = document(bytes).map_or_else(Vec::new, |d| d.runs);
    let understood = |value| serde_json::from_value::<Run>(value).ok()?.run();
    runs.into_iter().filter_map(understood).take(MOST).collect()
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
