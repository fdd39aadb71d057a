//! Selection of the values to advise: the cheapest that gives the guarantee, and the fastest call.

use super::{Answer, Judgement, Setting, SystemSettings, Value, judge_all};
use logforce_device::{Facts, Guarantee, Method, Platform};

/// A setting with the advised value.
#[derive(Debug, Clone)]
pub struct Choice {
    /// The setting.
    pub setting: &'static Setting,
    /// The value.
    pub value: &'static Value,
    /// Judgement of the value on this disk.
    pub judged: Judgement,
    /// Measured reason for a value other than the default; empty if there is none.
    pub why: String,
}

/// Time of a commit: its tenth, middle and ninetieth percentile, in milliseconds.
pub type Time = [f64; 3];

/// Measured time of a commit by a method.
pub type Times<'a> = dyn Fn(Method) -> Option<Time> + 'a;

/// Largest ratio of times at which another call counts as faster. A smaller difference does not justify
/// a setting that differs from the default.
const FASTER: f64 = 0.8;

/// Returns a value for each setting that `platform` has. No value promises less than `asked`, and under none
/// a failure may damage the data. If a disk gives less, the values are those that give most.
pub fn choose(
    settings: &SystemSettings,
    asked: Guarantee,
    platform: Platform,
    disks: &[Option<&Facts>],
    times: &Times<'_>,
) -> Vec<Choice> {
    let mut chosen: Vec<Choice> = Vec::new();
    for setting in settings.on(platform) {
        let read = |name: &str| {
            let text = chosen.iter().find(|c| c.setting.name == name)?.value.text;
            Some(text.to_owned())
        };
        let candidates: Vec<(&'static Value, Judgement)> = setting
            .values
            .iter()
            .filter(|v| v.is_advised && v.platforms.contains(&platform))
            .map(|v| (v, judge_all(settings, v, &read, disks)))
            .filter(|(_, w)| w.promise.survives >= asked && !w.promise.damages())
            .collect();
        let Some(best) = candidates.iter().map(|(_, w)| w.answer(asked)).max() else {
            continue;
        };
        let equal = |(_, w): &&(&'static Value, Judgement)| w.answer(asked) == best;
        let Some(first) = candidates.iter().find(equal) else {
            continue;
        };
        let (picked, why) = fastest(first, candidates.iter().filter(equal), &|value| {
            let method = settings.method(value, platform);
            (method, times(method))
        });
        chosen.push(Choice {
            setting,
            value: picked.0,
            judged: picked.1.clone(),
            why,
        });
    }
    chosen
}

/// Returns the candidate whose call was measured as faster than that of `first`, with the reason; else
/// `first`. `time` returns the method of a value and its time.
fn fastest<'a>(
    first: &'a (&'static Value, Judgement),
    candidates: impl Iterator<Item = &'a (&'static Value, Judgement)>,
    time: &dyn Fn(&Value) -> (Method, Option<Time>),
) -> (&'a (&'static Value, Judgement), String) {
    let (method, Some([low, usual, _])) = time(first.0) else {
        return (first, String::new());
    };
    let faster = candidates
        .filter(|(value, _)| time(value).0 != method)
        .filter_map(|candidate| Some((candidate, time(candidate.0).1?)))
        .filter(|(_, [_, _, high])| *high < FASTER * low)
        .min_by(|(_, a), (_, b)| a[1].total_cmp(&b[1]));
    match faster {
        None => (first, String::new()),
        Some((candidate, [_, middle, _])) => {
            let why = format!(
                "measured {:.1} times as fast as {} here",
                usual / middle,
                first.0.text
            );
            (candidate, why)
        }
    }
}

/// Returns the answer for all chosen values together: that of the weakest.
pub fn weakest(choices: &[Choice], asked: Guarantee) -> Answer {
    let answers = choices.iter().map(|c| c.judged.answer(asked));
    answers.min().unwrap_or(Answer::Doubtful)
}
