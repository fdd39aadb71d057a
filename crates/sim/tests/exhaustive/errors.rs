//! Every call of an opening and of a look fails, in every way that says nothing about the log, once
//! and from then on.

use crate::crew::{all, share};
use crate::logs;
use logforce_core::{Error, OnDamage};
use logforce_sim::model::PATH;
use logforce_sim::still::Still;
use logforce_sim::victim::{Look, Shown, Victim, look, open_to_read, open_to_write};
use logforce_sim::work::is_blameless;
use logforce_testkit::{Call, Refusal, Trouble};

/// How the log is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Strict,
    Truncate,
    Read,
    Look,
    Salvage,
}

#[derive(Debug, PartialEq)]
enum Answer {
    Shown(Box<Shown>),
    Look(Box<Look>),
}

impl Way {
    const ALL: [Way; 5] = [
        Way::Strict,
        Way::Truncate,
        Way::Read,
        Way::Look,
        Way::Salvage,
    ];

    fn go(self, victim: &Victim, still: &Still) -> Result<Answer, Error> {
        let write = |on_damage| open_to_write(still, &victim.options, on_damage);
        match self {
            Way::Strict => write(OnDamage::Refuse).map(|s| Answer::Shown(Box::new(s))),
            Way::Truncate => write(OnDamage::Truncate).map(|s| Answer::Shown(Box::new(s))),
            Way::Read => open_to_read(still).map(|s| Answer::Shown(Box::new(s))),
            Way::Look => look(still, false).map(|l| Answer::Look(Box::new(l))),
            Way::Salvage => look(still, true).map(|l| Answer::Look(Box::new(l))),
        }
    }

    fn writes(self) -> bool {
        matches!(self, Way::Strict | Way::Truncate)
    }
}

#[derive(Debug, Default)]
struct Count {
    failed: u64,
    errors: u64,
    as_without: u64,
}

/// What a call is answered with, and how often.
fn answers(call: Call, number: usize) -> Vec<(Refusal, u64)> {
    let mut answers = Vec::new();
    for (n, how) in Refusal::OF_THE_PROCESS.into_iter().enumerate() {
        // One of them for each call, each of them for as many.
        if all() || n == number % Refusal::OF_THE_PROCESS.len() {
            answers.extend([(how, 1), (how, u64::MAX)]);
        }
    }
    if call == Call::Read {
        // A third look gets it.
        answers.extend([(Refusal::Medium, 1), (Refusal::Medium, 2)]);
    } else {
        answers.extend([(Refusal::Medium, 1), (Refusal::Medium, u64::MAX)]);
    }
    for how in [Refusal::Nothing, Refusal::Half] {
        answers.extend([(how, 1), (how, u64::MAX)]);
    }
    answers.retain(|(how, _)| how.answers(call));
    answers
}

fn set_aside(still: &Still) -> bool {
    let mut names = still.picture().files.into_keys();
    names.any(|name| name.contains("damaged"))
}

/// Fails the call of this number among those that `way` makes.
fn fail(victim: &Victim, way: Way, calls: &[Call], number: usize, count: &mut Count) {
    let call = calls[number];
    let before = calls[..number].iter().filter(|c| **c == call).count();
    let trouble = |(how, failing)| Trouble {
        calls: vec![call],
        how,
        after: before as u64,
        failing,
    };
    let mut tried: Vec<Vec<Trouble>> = answers(call, number)
        .into_iter()
        .map(|answer| vec![trouble(answer)])
        .collect();
    if call == Call::Read {
        // The medium says something, and whoever looks again cannot.
        let again = trouble((Refusal::NoMemory, u64::MAX));
        tried.push(vec![trouble((Refusal::Medium, 1)), again]);
    }
    for troubles in tried {
        let what = format!("{}, {way:?}: call {number} of {troubles:?}", victim.name);
        let costs_nothing = matches!(
            &troubles[..],
            [Trouble { how: Refusal::Medium, .. }] if call == Call::Read
        );
        let hidden = call == Call::Entries && troubles.iter().any(|t| t.how.is_short());
        let still = victim.system();
        for trouble in troubles {
            still.trouble(trouble);
        }
        let answer = way.go(victim, &still);
        still.end_troubles();
        count.failed += 1;
        match answer {
            Err(e) => {
                assert!(
                    !costs_nothing,
                    "{what}: a second look would have shown it: {e}"
                );
                is_blameless(&e, &what);
                count.errors += 1;
            }
            Ok(mut answer) => {
                // The statistics are a hint: there are none where they cannot be read.
                if let Answer::Look(look) = &mut answer
                    && look.live.is_none()
                {
                    look.live.clone_from(&victim.look.live);
                }
                let expected = if way.writes() || way == Way::Read {
                    as_read(way, victim)
                } else {
                    Answer::Look(Box::new(victim.look.clone()))
                };
                assert!(
                    answer == expected,
                    "{what}: shows something else: {answer:#?}"
                );
                count.as_without += 1;
            }
        }
        if way.writes() {
            assert!(
                hidden || !set_aside(&still),
                "{what}: something was set aside"
            );
            let again = still.picture().system(PATH);
            let again = open_to_write(&again, &victim.options, OnDamage::Refuse);
            let again = again.unwrap_or_else(|e| panic!("{what}: afterwards: {e}"));
            assert!(
                again.records == victim.shown.records,
                "{what}: lost afterwards"
            );
            assert_eq!(again.meta, victim.shown.meta, "{what}: afterwards");
            assert_eq!(again.damage, None, "{what}: afterwards");
            assert_eq!(again.front, victim.shown.front, "{what}: afterwards");
        }
    }
}

/// What `way` shows where nothing fails.
fn as_read(way: Way, victim: &Victim) -> Answer {
    let shown = way.go(victim, &victim.system());
    shown.unwrap_or_else(|e| panic!("{way:?}, and nothing fails: {e}"))
}

fn every_call(victim: &Victim) {
    for way in Way::ALL {
        let still = victim.system();
        let calm = way.go(victim, &still);
        calm.unwrap_or_else(|e| panic!("{way:?}, and nothing fails: {e}"));
        let calls = still.calls();
        assert!(calls.len() > 20, "{} calls", calls.len());
        let crew = share(calls.len(), Count::default, |count, number| {
            fail(victim, way, &calls, number, count);
        });
        let sum = |of: fn(&Count) -> u64| crew.iter().map(of).sum::<u64>();
        let (failed, errors) = (sum(|c| c.failed), sum(|c| c.errors));
        println!(
            "exhaustive errors ({}, {way:?}): {} calls failed in {failed} ways: {errors} errors, {} \
             as if nothing had",
            victim.name,
            calls.len(),
            sum(|c| c.as_without),
        );
        assert!(errors > 0 && errors < failed);
    }
}

#[test]
fn every_call_on_a_closed_log() {
    every_call(&logs::closed());
}

#[test]
fn every_call_on_a_crashed_log() {
    every_call(&logs::crashed());
}

#[test]
fn every_call_on_a_torn_log() {
    every_call(&logs::torn());
}
