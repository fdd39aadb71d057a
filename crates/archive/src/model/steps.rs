//! Steps of the model.

use super::bucket::{Bytes, Message};
use super::node::{Event, Node, Process, Sender, Sizes};
use super::properties::nothing_is_lost;
use super::restorer::Restorer;
use super::search::{Followed, Model, Shared, fingerprint};
use super::world::{Budget, Watched, World};
use crate::object::Nonce;
use crate::protocol::{Answer, Request};
use std::cell::RefCell;
use std::collections::HashSet;

/// Model within bounds.
pub(super) struct Archive {
    pub(super) machines: usize,
    pub(super) sizes: Sizes,
    pub(super) budget: Budget,
    /// Start from an archive with an owner, and let hints land at once. Otherwise begin with nothing.
    pub(super) is_begun: bool,
    /// Buckets that were checked.
    pub(super) checked: RefCell<HashSet<u64>>,
}

/// Step of the model. Machines are numbered.
#[derive(Debug, Clone)]
#[allow(dead_code, reason = "what steps carry is printed with a violation")]
pub(super) enum Step {
    Open(usize),
    /// The local log is set aside first.
    TakeOver(usize),
    Restart(usize),
    /// The local log has lost its last record.
    RollBack(usize),
    Append(usize),
    Truncate(usize),
    Level(usize),
    Prune(usize),
    /// The request takes effect, and its answer arrives.
    Land(usize, Request),
    /// The request takes effect now and once more later.
    LandTwice(usize, Request),
    /// The answer is lost. The request takes effect later or never.
    Lose(usize, Request),
    /// The answer is `Exists`, and nothing is there.
    Refuse(usize, Request),
    LandLate(Request),
    Restore,
    Read(Request),
}

impl Model for Archive {
    type State = World;
    type Step = Step;

    fn start(&self) -> World {
        let mut world = World::new(self.machines, self.budget);
        // The first machine's opening, in one of its orders, and not one of the budget.
        world.left.openings += u8::from(self.is_begun);
        while self.is_begun && !world.nodes[0].is_idle_writer() {
            let mut followed = self.follow(&world);
            let step = followed
                .iter()
                .position(|(step, _)| matches!(step, Step::Land(..)));
            let (_, next) = followed.swap_remove(step.unwrap_or(0));
            world = next.expect("no property is violated by an opening alone");
        }
        world
    }

    fn follow(&self, world: &World) -> Followed<Archive> {
        let mut followed = Vec::new();
        // A read whose answer can never change again comes first: no order of it with other steps matters.
        for (number, node) in world.nodes.iter().enumerate() {
            for (sender, message) in &node.open {
                if world.is_stable(&message.request)
                    || (self.is_begun && matches!(message.request, Request::Replace(_)))
                {
                    self.request_steps(world, number, *sender, message, &mut followed);
                    return followed;
                }
            }
        }
        if let Some(watched) = &world.restorer
            && let Some(request) = watched.open.iter().find(|request| world.is_stable(request))
        {
            followed.push(self.read(world, watched, request));
            return followed;
        }
        for number in 0..world.nodes.len() {
            self.machine_steps(world, number, &mut followed);
        }
        for message in world.late.iter() {
            if let Some(bucket) = world.bucket.after(message) {
                let mut next = world.clone();
                next.bucket = Shared::new(bucket);
                let step = Step::LandLate(message.request.clone());
                followed.push((step, self.check(next)));
            }
        }
        self.restorer_steps(world, &mut followed);
        followed
    }
}

impl Archive {
    fn machine_steps(&self, world: &World, number: usize, followed: &mut Followed<Archive>) {
        let node = &world.nodes[number];
        let is_down = node.process == Process::Down;
        if let Some(left) = world.left.openings.checked_sub(1) {
            let mut opened = |step: Step, before: fn(&mut Node)| {
                let mut next = world.clone();
                next.left.openings = left;
                next.left.rollbacks -= u8::from(matches!(step, Step::RollBack(_)));
                next.nonces += 1;
                let nonce = Nonce::new(next.nonces, 0);
                let late = next.nodes[number].change(|node| {
                    let late = node.crash();
                    before(node);
                    node.open(nonce, self.sizes);
                    late
                });
                next.late_too(late);
                followed.push((step, Ok(next)));
            };
            match (is_down, node.has_log) {
                (true, true) => {
                    opened(Step::Open(number), |_| ());
                    // The same as a takeover by a machine without a log.
                    if world.nodes.iter().all(|node| node.has_log) {
                        opened(Step::TakeOver(number), Node::set_log_aside);
                    }
                }
                (true, false) => {
                    // Machines that did nothing yet are alike.
                    let is_alike = |other: &Shared<Node>| **other == **node;
                    if !world.nodes[..number].iter().any(is_alike) {
                        opened(Step::TakeOver(number), Node::set_log_aside);
                    }
                }
                (false, true) => opened(Step::Restart(number), |_| ()),
                (false, false) => opened(Step::Restart(number), Node::set_log_aside),
            }
            if world.left.rollbacks > 0 && !node.log.records.is_empty() {
                opened(Step::RollBack(number), Node::roll_back);
            }
        }
        let is_writer = matches!(node.process, Process::Write(..));
        if is_writer && let Some(left) = world.left.records.checked_sub(1) {
            let mut next = world.clone();
            next.left.records = left;
            next.records += 1;
            let record = next.records;
            next.nodes[number].change(|node| node.append(record));
            followed.push((Step::Append(number), Ok(next)));
        }
        let mut act =
            |step: Step, left: fn(&mut Budget) -> &mut u8, acts: fn(&mut Node, Sizes) -> bool| {
                let mut next = world.clone();
                let left = left(&mut next.left);
                if !is_writer || *left == 0 {
                    return;
                }
                *left -= 1;
                if next.nodes[number].change(|node| acts(node, self.sizes)) {
                    followed.push((step, Ok(next)));
                }
            };
        act(
            Step::Truncate(number),
            |left| &mut left.truncations,
            |node, _| node.truncate(),
        );
        act(Step::Level(number), |left| &mut left.levels, Node::level);
        act(
            Step::Prune(number),
            |left| &mut left.prunes,
            |node, _| node.prune(),
        );
        for (sender, message) in &node.open {
            self.request_steps(world, number, *sender, message, followed);
        }
    }

    fn request_steps(
        &self,
        world: &World,
        number: usize,
        sender: Sender,
        message: &Message,
        followed: &mut Followed<Archive>,
    ) {
        let request = &message.request;
        let mut land = |step: fn(usize, Request) -> Step,
                        lands: bool,
                        is_late: bool,
                        answer: Option<Answer>| {
            let mut next = world.clone();
            let step = step(number, request.clone());
            next.left.faults -= u8::from(!matches!(step, Step::Land(..)));
            let (there, bytes) = next.bucket.answer(request);
            if lands && let Some(bucket) = next.bucket.after(message) {
                next.bucket = Shared::new(bucket);
            }
            if is_late {
                next.late_too(vec![message.clone()]);
            }
            let answer = (answer.unwrap_or(there), bytes);
            followed.push((step, self.answered(next, number, sender, message, answer)));
        };
        land(Step::Land, true, false, None);
        if world.left.faults == 0 {
            return;
        }
        land(Step::Lose, false, message.is_write(), Some(Answer::Unknown));
        if message.is_write() {
            land(Step::LandTwice, true, true, None);
        }
        if matches!(request, Request::Create(object) if !world.bucket.contains(&object.key())) {
            land(Step::Refuse, false, false, Some(Answer::Exists));
        }
    }

    /// Gives an answer to a machine, and checks the properties that its events are about.
    fn answered(
        &self,
        mut next: World,
        number: usize,
        sender: Sender,
        message: &Message,
        (answer, bytes): (Answer, Bytes),
    ) -> Result<World, String> {
        let (events, late) = next.nodes[number].change(|node| {
            node.open.remove(&(sender, message.clone()));
            let events = node.answer(sender, &message.request, answer, bytes, self.sizes);
            let is_down = node.process == Process::Down;
            let late = if is_down { node.crash() } else { Vec::new() };
            (events, late)
        });
        next.late_too(late);
        let events = events?;
        if next.nodes[number].is_stuck() {
            return Err("a machine is stuck".to_owned());
        }
        let log = next.nodes[number].log.clone();
        for event in events {
            match event {
                Event::Claimed(claimed) => next.claimed(&claimed)?,
                Event::Opened(first) => next.opened(&log, first.0)?,
                Event::Acknowledged(from, to) => next.acknowledge(&log, from.0..to.0, number)?,
            }
        }
        self.check(next)
    }

    fn restorer_steps(&self, world: &World, followed: &mut Followed<Archive>) {
        let Some(watched) = &world.restorer else {
            if let Some(left) = world.left.restores.checked_sub(1) {
                let mut next = world.clone();
                next.left.restores = left;
                let mut restorer = Restorer::new(None);
                let open = restorer.reading.poll().into_iter().collect();
                let before = world.acknowledged.clone();
                next.restorer = Some(Shared::new(Watched {
                    restorer,
                    open,
                    before,
                }));
                followed.push((Step::Restore, Ok(next)));
            }
            return;
        };
        for request in &watched.open {
            followed.push(self.read(world, watched, request));
        }
    }

    /// Gives an answer to the restorer.
    fn read(
        &self,
        world: &World,
        watched: &Watched,
        request: &Request,
    ) -> (Step, Result<World, String>) {
        let mut next = world.clone();
        let mut watched = Watched::clone(watched);
        watched.open.remove(request);
        let (answer, bytes) = world.bucket.answer(request);
        let read = watched.restorer.answer(request, answer, bytes);
        watched.open.extend(watched.restorer.reading.poll());
        let result = read.and_then(|()| match watched.restorer.reading.outcome() {
            None if watched.open.is_empty() => Err("a restorer is stuck".to_owned()),
            None => Ok(Some(Shared::new(watched))),
            Some(_) => watched.check(&world.acknowledged).map(|()| None),
        });
        let result = result.map(|restorer| {
            next.restorer = restorer;
            next
        });
        (Step::Read(request.clone()), result)
    }

    /// Checks the state, unless one with the same bucket and acknowledgements was checked.
    fn check(&self, mut world: World) -> Result<World, String> {
        world.drop_without_effect();
        let key = fingerprint(&(&world.bucket, &world.acknowledged));
        if self.checked.borrow().contains(&key) {
            return Ok(world);
        }
        nothing_is_lost(&world.bucket, &world.acknowledged)?;
        self.checked.borrow_mut().insert(key);
        Ok(world)
    }
}
