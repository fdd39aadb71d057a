//! Conclusion: the failures that a commit survives, the party that says so, and the next steps.

use super::next::Next;
use super::trial::Test;
use logforce_device::{
    Assessment, Facts, FileState, Guarantee, Layer, Source, Verdict, WriteCache,
};
use serde::Serialize;

/// Severity of a conclusion. The exit status of the command follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A commit survives loss of power, as declared or proven.
    Safe,
    /// No party answers for it, or the tests could not tell.
    Unknown,
    /// A commit does not survive loss of power, or something contradicts the declaration.
    Unsafe,
}

/// Answer for a directory, a file or a device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Conclusion {
    /// Severity, which decides the exit status.
    pub severity: Severity,
    /// Guarantee of a commit, with `?` if it is doubted.
    pub survives: &'static str,
    /// Verdict on that guarantee.
    pub verdict: &'static str,
    /// Party that the verdict rests on.
    pub source: &'static str,
    /// The answer, as one sentence.
    pub sentence: String,
    /// Next steps, as sentences. The most important one comes first.
    pub advice: Vec<String>,
}

impl Conclusion {
    /// Concludes from the facts and the tests. The method is the one that a log would use here.
    pub fn new(facts: &Facts, next: &Next, tests: &[Test]) -> Conclusion {
        let assessed = facts.assess(next.method(), FileState::Zeroed);
        let mut a = assessed.unwrap_or_else(|| {
            let why = facts.why_not_offered(next.method());
            Assessment::new(Guarantee::Nothing, Verdict::Unknown, Source::Nobody, why)
        });
        let failed = tests.iter().find(|t| t.passed == Some(false));
        let is_believed = matches!(a.verdict, Verdict::Declared | Verdict::Unknown);
        if let Some(test) = failed.filter(|_| a.guarantee == Guarantee::PowerLoss && is_believed) {
            a.verdict = Verdict::Implausible;
            let answer = test.finding.strip_prefix("no: ").unwrap_or(&test.finding);
            a.evidence = format!("a test contradicts it: {answer}");
        }
        let mut a = facts.after_repair(a);
        let severity = match (a.guarantee, a.verdict) {
            (Guarantee::PowerLoss, Verdict::Declared | Verdict::Proven) => Severity::Safe,
            (_, Verdict::Unknown) => Severity::Unknown,
            _ => Severity::Unsafe,
        };
        let survives = match a.guarantee {
            Guarantee::PowerLoss => "loss of power",
            Guarantee::OsCrash => "a crash of the system, but not loss of power",
            Guarantee::ProcessCrash => "a crash of its program only",
            _ => "nothing",
        };
        let by = a.source.by();
        // The sentence names the party already.
        a.evidence = a
            .evidence
            .replace(", to a medium by the hypervisor's word", "");
        let sentence = match severity {
            Severity::Safe if a.verdict == Verdict::Proven => {
                format!(
                    "A commit here survives {survives}, proven by power cuts: {}.",
                    a.evidence
                )
            }
            Severity::Safe => format!("A commit here survives {survives}, {by}: {}.", a.evidence),
            Severity::Unknown => format!(
                "It is unknown whether a commit here survives loss of power: {}.",
                a.evidence
            ),
            Severity::Unsafe if a.guarantee == Guarantee::PowerLoss => {
                format!(
                    "Do not rely on it that a commit here survives {survives}: {}.",
                    a.evidence
                )
            }
            Severity::Unsafe => format!("A commit here survives {survives}: {}.", a.evidence),
        };
        Conclusion {
            severity,
            survives: a.granted().name(),
            verdict: a.verdict.name(),
            source: a.source.name(),
            sentence,
            advice: advice(facts, &a, severity),
        }
    }
}

fn advice(facts: &Facts, a: &Assessment, severity: Severity) -> Vec<String> {
    let mut advice = Vec::new();
    let mut say = |text: String| advice.push(text);
    for note in facts.notes.iter().filter(|n| n.contains(" is ephemeral (")) {
        say(note.clone());
    }
    if !facts.unread.is_empty() {
        say("Repair the files of recorded power cuts that cannot be read: see above.".to_owned());
    }
    let is_contradicted = a.verdict == Verdict::Contradicted;
    if facts.read_only {
        say("Mount the filesystem writable.".to_owned());
    } else if facts.barriers == Some(false) {
        say(format!(
            "Mount {} with barriers (without `nobarrier`, `barrier=0`, `barrier=none`, `journal_flush_disabled` or \
             `volatile`).",
            facts.mount_point
        ));
    } else if is_contradicted && a.guarantee <= Guarantee::ProcessCrash && !is_set_through(facts) {
        say("Use a directory whose blocks are on a disk.".to_owned());
    }
    if facts.journalled == Some(false) {
        say(
            "Give the filesystem a journal (`tune2fs -O has_journal`), or mount it with the one that it has."
                .to_owned(),
        );
    }
    for layer in through(facts).filter(|_| is_contradicted) {
        say(format!(
            "Let the kernel flush {0}: `echo 'write back' > /sys/block/{0}/queue/write_cache`, and remove the rule that \
             sets `write through`.",
            layer.name
        ));
    }
    match (severity, a.source) {
        (Severity::Safe, _) if a.verdict == Verdict::Proven => {}
        (Severity::Safe, Source::Hypervisor) => say(
            "To rest on more than the hypervisor's word, ask its operator whether a flush reaches a medium, or cut the \
             power: `logforce powercut`."
                .to_owned(),
        ),
        (Severity::Safe, _) => {
            say("To prove it, cut the power: `logforce powercut`.".to_owned());
        }
        (Severity::Unknown, Source::Server) => say(
            "Ask the operator of the server whether a sync is on a medium before it is answered, or cut the power: \
             `logforce powercut`."
                .to_owned(),
        ),
        (Severity::Unknown, _) => say(
            "Remove the cause that is named above. What cannot be seen, only a power cut decides: `logforce powercut`."
                .to_owned(),
        ),
        (Severity::Unsafe, _) if a.verdict == Verdict::Implausible => say(
            "Find the layer that drops the forces: the filesystem, a cache, or the device. Until then use another disk."
                .to_owned(),
        ),
        (Severity::Unsafe, _) if advice.is_empty() => {
            advice.push("Use another disk, or change the layer that is named above.".to_owned());
        }
        _ => {}
    }
    advice
}

/// Returns the layers whose setting keeps flushes from a volatile cache or from layers below them.
fn through(facts: &Facts) -> impl Iterator<Item = &Layer> {
    let layers = &facts.layers;
    let stops_flushes = |n: &usize| {
        let layer = &layers[*n];
        let has_below = layers
            .get(n + 1)
            .is_some_and(|next| next.level > layer.level);
        let own = &layer.synced;
        let is_wrong = (own.guarantee, own.verdict) == (Guarantee::OsCrash, Verdict::Contradicted);
        layer.write_cache == WriteCache::Through && (has_below || is_wrong)
    };
    (0..layers.len()).filter(stops_flushes).map(|n| &layers[n])
}

fn is_set_through(facts: &Facts) -> bool {
    through(facts).next().is_some()
}
