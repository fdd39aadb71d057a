//! Failures of every call of an opening and of an inspection, in every way that says nothing about the log,
//! once and from then on.

use super::logs;
use super::workers::{all, share};
use logforce_core::Error;
use logforce_sim::fixture::{Fixture, Look, Shown, look, open_to_read, open_to_write};
use logforce_sim::memory::MemorySystem;
use logforce_sim::mending::OnDamage;
use logforce_sim::model::PATH;
use logforce_sim::workload::check_not_damage;
use logforce_testkit::{Call, FailingCalls, Refusal};

/// Ways to read the log.
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

    fn go(self, fixture: &Fixture, memory: &MemorySystem) -> Result<Answer, Error> {
        let write = |on_damage| open_to_write(memory, &fixture.options, on_damage);
        match self {
            Way::Strict => write(OnDamage::Refuse).map(|s| Answer::Shown(Box::new(s))),
            Way::Truncate => write(OnDamage::Repair).map(|s| Answer::Shown(Box::new(s))),
            Way::Read => open_to_read(memory).map(|s| Answer::Shown(Box::new(s))),
            Way::Look => look(memory, false).map(|l| Answer::Look(Box::new(l))),
            Way::Salvage => look(memory, true).map(|l| Answer::Look(Box::new(l))),
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

/// Returns the errors of a call, and how often each is returned.
fn answers(call: Call, number: usize) -> Vec<(Refusal, u64)> {
    let mut answers = Vec::new();
    for (n, how) in Refusal::OF_THE_PROCESS.into_iter().enumerate() {
        // One error for each call in turn, so that all errors are used equally often.
        if all() || n == number % Refusal::OF_THE_PROCESS.len() {
            answers.extend([(how, 1), (how, u64::MAX)]);
        }
    }
    if call == Call::Read {
        // The third read succeeds.
        answers.extend([(Refusal::Medium, 1), (Refusal::Medium, 2)]);
    } else {
        answers.extend([(Refusal::Medium, 1), (Refusal::Medium, u64::MAX)]);
    }
    for how in [Refusal::Nothing, Refusal::Half] {
        answers.extend([(how, 1), (how, u64::MAX)]);
    }
    answers.retain(|(how, _)| how.fits(call));
    answers
}

fn set_aside(memory: &MemorySystem) -> bool {
    let mut names = memory.image().files.into_keys();
    names.any(|name| name.contains("damaged"))
}

/// Fails the call of this number among the calls of `way`.
fn fail(fixture: &Fixture, way: Way, calls: &[Call], number: usize, count: &mut Count) {
    let call = calls[number];
    let before = calls[..number].iter().filter(|c| **c == call).count();
    let failing = |(how, failing)| FailingCalls {
        calls: vec![call],
        how,
        after: before as u64,
        failing,
    };
    let mut tried: Vec<Vec<FailingCalls>> = answers(call, number)
        .into_iter()
        .map(|answer| vec![failing(answer)])
        .collect();
    if call == Call::Read {
        // A medium error, after which the retry fails for lack of memory.
        let again = failing((Refusal::NoMemory, u64::MAX));
        tried.push(vec![failing((Refusal::Medium, 1)), again]);
    }
    for failing_calls in tried {
        let what = format!(
            "{}, {way:?}: call {number} of {failing_calls:?}",
            fixture.name
        );
        let costs_nothing = matches!(
            &failing_calls[..],
            [FailingCalls { how: Refusal::Medium, .. }] if call == Call::Read
        );
        let hidden = call == Call::Entries && failing_calls.iter().any(|t| t.how.is_short());
        let memory = fixture.system();
        for failing in failing_calls {
            memory.fail_calls(failing);
        }
        let answer = way.go(fixture, &memory);
        memory.stop_failing_calls();
        count.failed += 1;
        match answer {
            Err(e) => {
                assert!(
                    !costs_nothing,
                    "{what}: a second read would have succeeded: {e}"
                );
                check_not_damage(&e, &what);
                count.errors += 1;
            }
            Ok(mut answer) => {
                // The statistics are optional, and missing if they cannot be read.
                if let Answer::Look(look) = &mut answer
                    && look.live.is_none()
                {
                    look.live.clone_from(&fixture.look.live);
                }
                let expected = if way.writes() || way == Way::Read {
                    as_read(way, fixture)
                } else {
                    Answer::Look(Box::new(fixture.look.clone()))
                };
                assert!(
                    answer == expected,
                    "{what}: shows another result: {answer:#?}"
                );
                count.as_without += 1;
            }
        }
        if way.writes() {
            assert!(
                hidden || !set_aside(&memory),
                "{what}: a file was set aside"
            );
            let again = memory.image().system(PATH);
            let again = open_to_write(&again, &fixture.options, OnDamage::Refuse);
            let again = again.unwrap_or_else(|e| panic!("{what}: afterwards: {e}"));
            assert!(
                again.records == fixture.shown.records,
                "{what}: lost afterwards"
            );
            assert_eq!(again.meta, fixture.shown.meta, "{what}: afterwards");
            assert_eq!(again.damage, None, "{what}: afterwards");
            assert_eq!(again.front, fixture.shown.front, "{what}: afterwards");
        }
    }
}

/// Returns the result of `way` without failures.
fn as_read(way: Way, fixture: &Fixture) -> Answer {
    let shown = way.go(fixture, &fixture.system());
    shown.unwrap_or_else(|e| panic!("{way:?}, and nothing fails: {e}"))
}

fn every_call(fixture: &Fixture) {
    for way in Way::ALL {
        let memory = fixture.system();
        let calm = way.go(fixture, &memory);
        calm.unwrap_or_else(|e| panic!("{way:?}, and nothing fails: {e}"));
        let calls = memory.calls();
        assert!(calls.len() > 20, "{} calls", calls.len());
        let workers = share(calls.len(), Count::default, |count, number| {
            fail(fixture, way, &calls, number, count);
        });
        let sum = |of: fn(&Count) -> u64| workers.iter().map(of).sum::<u64>();
        let (failed, errors) = (sum(|c| c.failed), sum(|c| c.errors));
        println!(
            "exhaustive errors ({}, {way:?}): {} calls failed in {failed} ways: {errors} errors, {} \
             as if nothing had",
            fixture.name,
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
