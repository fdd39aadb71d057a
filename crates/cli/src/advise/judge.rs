//! Judgement of the settings in force, and the advice: data for the report.

use super::config::{Configuration, Found};
use super::cost::{Costs, described};
use super::report::{Advice, Cost, InForce, Survives};
use logforce_device::{Facts, Guarantee, Platform};
use logforce_systems::settings::{
    self, Answer, Beyond, Choice, Judgement, MadeBy, Setting, SystemSettings, Value, judge,
};

/// Order of settings with the same answer: those under which data may be damaged, then by what is survived.
type Rank = (bool, Guarantee);

/// Change that makes a setting give more.
enum Remedy {
    /// A line of this setting, or of one that it depends on.
    Line(String),
    /// The removal of the line: the default gives more.
    Removal,
}

/// Conditions for the judgement of all settings of a system.
pub struct Court<'a> {
    pub settings: &'static SystemSettings,
    pub asked: Guarantee,
    pub platform: Platform,
    /// Facts of the disk; `None` if it was not examined.
    pub facts: Option<&'a Facts>,
}

impl Court<'_> {
    /// Returns the values to advise.
    pub fn choose(&self, costs: &Costs) -> Vec<Choice> {
        let times = |method| costs.of(0, method);
        settings::choose(self.settings, self.asked, self.platform, self.facts, &times)
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
        let read = |name: &str| self.text(configuration, name);
        let mut all: Vec<(Answer, Rank, InForce)> = Vec::new();
        for setting in self.settings.on(self.platform) {
            let own = configuration.of(setting.name);
            let others = overrides.iter().filter(|f| f.name == setting.name);
            for found in std::iter::once(own).chain(others.map(Some)) {
                all.push(self.judge(setting, found, &read, choices));
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
        read: &dyn Fn(&str) -> Option<String>,
        choices: &[Choice],
    ) -> (Answer, Rank, InForce) {
        let text = found.map(|f| f.value.as_str());
        let value = setting.value(text, self.platform);
        let judged = value.map(|v| judge(self.settings, v, read, self.facts));
        let mut answer = judged
            .as_ref()
            .map_or(Answer::Doubtful, |w| w.answer(self.asked));
        let mut note = match (&judged, text) {
            (None, Some(text)) => Some(format!("the value '{text}' is not known")),
            (Some(w), _) if !w.doubt.is_empty() => Some(w.doubt.clone()),
            _ => None,
        };
        if let Some(condition) = setting.applies.filter(|c| !c.holds(read)) {
            let other = read(condition.setting).unwrap_or_default();
            note = Some(format!("without effect: {} = {other}", condition.setting));
            answer = Answer::Enough;
        } else if setting.made_by == MadeBy::Program && found.is_none() {
            note = Some(
                "each program sets it for itself; this is the value if it does not".to_owned(),
            );
            answer = answer.min(Answer::Doubtful);
        }
        let shown = text.unwrap_or((setting.default)(self.platform));
        let remedy = match answer {
            Answer::Enough => None,
            _ => self.remedy(setting, found, judged.as_ref(), value, read, choices),
        };
        // A setting under which data may be damaged comes before one that loses commits.
        let rank = judged
            .as_ref()
            .map(|w| (!w.promise.damages(), w.survives.guarantee));
        let rank = rank.unwrap_or((false, Guarantee::Nothing));
        let line = InForce {
            name: setting.name,
            value: shown.to_owned(),
            place: found.map(|f| f.place.clone()),
            answer: name(answer),
            survives: judged.as_ref().map(survives),
            note,
            remove: matches!(remedy, Some(Remedy::Removal)),
            change: match remedy {
                Some(Remedy::Line(line)) => Some(line),
                _ => None,
            },
            manual: setting.manual,
        };
        (answer, rank, line)
    }
}

impl Court<'_> {
    /// Returns the remedy, if there is one.
    fn remedy(
        &self,
        setting: &Setting,
        found: Option<&Found>,
        judged: Option<&Judgement>,
        value: Option<&'static Value>,
        read: &dyn Fn(&str) -> Option<String>,
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
            Some(c) if value.is_some_and(|v| std::ptr::eq(v, c.value)) => {
                let (condition, _) = c.value.unless?;
                let other = of(condition.setting)?;
                line(other.setting, other.value).map(Remedy::Line)
            }
            Some(c) => line(c.setting, c.value).map(Remedy::Line),
            None => {
                let default = setting.value(None, self.platform)?;
                let by_default = judge(self.settings, default, read, self.facts);
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
