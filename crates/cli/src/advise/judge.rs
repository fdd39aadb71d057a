//! Judgement of the settings in force, and the advice: data for the report.

use super::config::{Configuration, Found};
use super::cost::{Costs, described};
use super::report::{Advice, Cost, InForce, Survives};
use logforce_device::{Facts, Guarantee, Platform};
use logforce_systems::settings::{
    self, Answer, Beyond, Choice, Judgement, MadeBy, Setting, SystemSettings, Value, judge_all,
};

/// Order of settings with the same answer: those under which data may be damaged, then by what is survived.
type Rank = (bool, Guarantee);

/// Change that makes a setting give more.
enum Remedy {
    /// The values to set: of a setting that this one depends on, and of this setting.
    Lines(Vec<(&'static Setting, &'static Value)>),
    /// The removal of the line: the default gives more.
    Removal,
}

/// Conditions for the judgement of all settings of a system.
pub struct Court<'a> {
    pub settings: &'static SystemSettings,
    pub asked: Guarantee,
    pub platform: Platform,
    /// Facts of all disks that hold data; `None` for one that was not examined.
    pub disks: Vec<Option<&'a Facts>>,
}

impl Court<'_> {
    /// Returns the values to advise.
    pub fn choose(&self, costs: &Costs) -> Vec<Choice> {
        let times = |method| costs.of(0, method);
        settings::choose(
            self.settings,
            self.asked,
            self.platform,
            &self.disks,
            &times,
        )
    }

    /// Returns the advice for the report.
    pub fn advice(&self, choices: &[Choice], costs: &Costs) -> Vec<Advice> {
        let advice = |c: &Choice| Advice {
            name: c.setting.name,
            value: c.value.text,
            line: line(c.setting, c.value),
            answer: name(c.judged.answer(self.asked)),
            survives: survives(&c.judged),
            cost: self.cost(c.value, costs),
            default: (c.setting.default)(self.platform),
            why: Some(c.why.clone()).filter(|why| !why.is_empty()),
            manual: c.setting.manual,
        };
        choices.iter().map(advice).collect()
    }

    fn cost(&self, value: &Value, costs: &Costs) -> Cost {
        let (forces, log) = match value.cost {
            settings::Cost::Nothing => return Cost::default(),
            settings::Cost::Work(words) => {
                return Cost {
                    words: Some(words),
                    ..Cost::default()
                };
            }
            settings::Cost::Forces(n) => (n, 0),
            settings::Cost::SecondLog => (1, 1),
        };
        let method = self.settings.method(value, self.platform);
        let force = self
            .settings
            .system
            .commit()
            .and_then(|c| c.forces.get(log));
        let time = costs.of(log, method).filter(|_| force.is_some());
        let times = f64::from(forces);
        Cost {
            words: None,
            forces_per_commit: forces,
            force: force.map(|force| described(force, method)),
            ms_per_commit: time.map(|t| t[1] * times),
            ms_per_commit_p10: time.map(|t| t[0] * times),
            ms_per_commit_p90: time.map(|t| t[2] * times),
        }
    }

    /// Returns the settings in force, unsafe ones first, and those of single users or databases.
    pub fn in_force(
        &self,
        configuration: &Configuration,
        overrides: &[Found],
        choices: &[Choice],
    ) -> Vec<InForce> {
        let now = |name: &str| self.text(configuration, name);
        // The advised changes of earlier settings. Each setting is judged as it will be after them.
        let mut changed: Vec<(&'static str, &'static str)> = Vec::new();
        let mut all: Vec<(Answer, Rank, InForce)> = Vec::new();
        for setting in self.settings.on(self.platform) {
            let own = configuration.of(setting.name);
            let others = overrides.iter().filter(|f| f.name == setting.name);
            for found in std::iter::once(own).chain(others.map(Some)) {
                let is_of_server = found.is_none_or(|f| own == Some(f));
                let then = |name: &str| {
                    let change = changed.iter().rev().find(|(n, _)| *n == name);
                    change.map_or_else(|| now(name), |(_, text)| Some((*text).to_owned()))
                };
                let (answer, rank, line, remedy) = self.judge(setting, found, &now, &then, choices);
                all.push((answer, rank, line));
                match remedy {
                    Some(Remedy::Lines(lines)) if is_of_server => {
                        changed.extend(lines.iter().map(|(s, v)| (s.name, v.text)));
                    }
                    Some(Remedy::Removal) if is_of_server => {
                        changed.push((setting.name, (setting.default)(self.platform)));
                    }
                    _ => {}
                }
            }
        }
        all.sort_by_key(|(answer, rank, _)| (*answer, *rank));
        all.into_iter().map(|(_, _, line)| line).collect()
    }

    /// Returns the text of a setting in force, or its default.
    fn text(&self, configuration: &Configuration, name: &str) -> Option<String> {
        if let Some(found) = configuration.of(name) {
            return Some(found.value.clone());
        }
        let setting = self.settings.settings.iter().find(|s| s.name == name);
        let default = setting.map(|s| (s.default)(self.platform));
        let also = self.settings.also_read.iter().find(|(n, _)| *n == name);
        let text = default.or(also.map(|(_, text)| *text))?;
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn judge(
        &self,
        setting: &'static Setting,
        found: Option<&Found>,
        now: &dyn Fn(&str) -> Option<String>,
        then: &dyn Fn(&str) -> Option<String>,
        choices: &[Choice],
    ) -> (Answer, Rank, InForce, Option<Remedy>) {
        let text = found.map(|f| f.value.as_str());
        let value = setting.value(text, self.platform);
        let judged = value.map(|v| judge_all(self.settings, v, then, &self.disks));
        let mut answer = judged
            .as_ref()
            .map_or(Answer::Doubtful, |w| w.answer(self.asked));
        let mut note = match (&judged, text) {
            (None, Some(text)) => Some(format!("the value '{text}' is not known")),
            (Some(w), _) if !w.doubt.is_empty() => Some(w.doubt.clone()),
            _ => None,
        };
        let without_effect = setting.applies.filter(|c| !c.holds(now));
        if let Some(condition) = without_effect {
            let other = |read: &dyn Fn(&str) -> Option<String>| {
                format!(
                    "{} = {}",
                    condition.setting,
                    read(condition.setting).unwrap_or_default()
                )
            };
            if condition.holds(then) {
                note.get_or_insert(format!(
                    "without effect under {}: judged under {}",
                    other(now),
                    other(then)
                ));
            } else {
                note = Some(format!("without effect: {}", other(now)));
                answer = Answer::Enough;
            }
        } else if setting.made_by == MadeBy::Program && found.is_none() {
            note = Some(
                "each program sets it for itself; this is the value if it does not".to_owned(),
            );
            answer = answer.min(Answer::Doubtful);
        }
        let shown = text.unwrap_or((setting.default)(self.platform));
        let remedy = match answer {
            Answer::Enough => None,
            _ => self.remedy(setting, found, judged.as_ref(), value, then, choices),
        };
        // A setting under which data may be damaged comes before one that loses commits.
        let rank = judged
            .as_ref()
            .map(|w| (!w.promise.damages(), w.survives.guarantee));
        let rank = rank.unwrap_or((false, Guarantee::Nothing));
        let in_force = InForce {
            name: setting.name,
            value: shown.to_owned(),
            place: found.map(|f| f.place.clone()),
            answer: name(answer),
            survives: judged.as_ref().map(survives),
            note,
            remove: matches!(remedy, Some(Remedy::Removal)),
            change: match &remedy {
                Some(Remedy::Lines(lines)) => {
                    let lines: Vec<String> = lines.iter().filter_map(|(s, v)| line(s, v)).collect();
                    (!lines.is_empty()).then(|| lines.join(" "))
                }
                _ => None,
            },
            manual: setting.manual,
        };
        (answer, rank, in_force, remedy)
    }
}

impl Court<'_> {
    /// Returns the remedy, if there is one.
    fn remedy(
        &self,
        setting: &'static Setting,
        found: Option<&Found>,
        judged: Option<&Judgement>,
        value: Option<&'static Value>,
        then: &dyn Fn(&str) -> Option<String>,
        choices: &[Choice],
    ) -> Option<Remedy> {
        let of = |name: &str| choices.iter().find(|c| c.setting.name == name);
        let is_weaker = |than: &Judgement| {
            judged.is_none_or(|j| {
                let promised = j.promise.survives < than.promise.survives;
                let here = j.answer(self.asked) < than.answer(self.asked);
                promised || here || j.promise.damages()
            })
        };
        match of(setting.name) {
            Some(c) if !is_weaker(&c.judged) => None,
            Some(c) => {
                let is_set = value.is_some_and(|v| std::ptr::eq(v, c.value));
                let alone = judge_all(self.settings, c.value, then, &self.disks);
                // The advised value gives more only together with another one.
                let needed = c
                    .value
                    .unless
                    .filter(|_| alone.answer(self.asked) < c.judged.answer(self.asked) || is_set);
                let needed = needed.and_then(|(condition, _)| of(condition.setting));
                let own = (!is_set).then_some((c.setting, c.value));
                let lines = needed.map(|n| (n.setting, n.value)).into_iter().chain(own);
                let lines: Vec<_> = lines.collect();
                (!lines.is_empty()).then_some(Remedy::Lines(lines))
            }
            None => {
                let default = setting.value(None, self.platform)?;
                let by_default = judge_all(self.settings, default, then, &self.disks);
                (found.is_some() && is_weaker(&by_default)).then_some(Remedy::Removal)
            }
        }
    }
}

/// Returns the name of an answer in JSON.
pub fn name(answer: Answer) -> &'static str {
    match answer {
        Answer::Below => "below",
        Answer::Doubtful => "doubtful",
        Answer::Enough => "enough",
    }
}

/// Returns the answer of this name.
pub fn answer(name: &str) -> Answer {
    [Answer::Below, Answer::Enough]
        .into_iter()
        .find(|a| self::name(*a) == name)
        .unwrap_or(Answer::Doubtful)
}

/// Returns the line to paste. An empty value leaves the setting unset.
fn line(setting: &Setting, value: &Value) -> Option<String> {
    (!value.text.is_empty()).then(|| setting.line.replacen("{}", value.text, 1))
}

fn survives(judged: &Judgement) -> Survives {
    let beyond = match judged.promise.beyond {
        // The disk gives less: the words are about another failure.
        _ if judged.is_limited_by_disk() => None,
        Beyond::Nothing => None,
        Beyond::Loses(what) => Some(("loses", what)),
        Beyond::Damages(what) if judged.survives.guarantee < Guarantee::PowerLoss => {
            Some(("damages", what))
        }
        Beyond::Damages(_) => None,
    };
    let damaged = match judged.promise.beyond {
        Beyond::Damages(what) if judged.is_limited_by_disk() => Some(("damages", what)),
        _ => None,
    };
    let beyond = beyond.or(damaged);
    Survives {
        guarantee: judged.survives.name(),
        promised: judged.promise.survives.name(),
        verdict: judged.force.as_ref().map(|f| f.verdict.name()),
        source: judged.force.as_ref().map(|f| f.source.name()),
        evidence: judged.force.as_ref().map(|f| f.evidence.clone()),
        beyond: beyond.map(|(kind, _)| kind),
        beyond_words: beyond.map(|(_, words)| words),
    }
}

#[cfg(test)]
mod tests;
