//! The log of `strace`, line by line: calls that other threads interrupt, and the parents of new threads.

use super::calls::{FORKS, Followed};
use super::line::{Call, Event, Line};
use super::tasks::World;
use std::collections::HashMap;

/// Follows the log of `strace` line by line.
pub(super) struct Follower {
    pub(super) world: World,
    /// Descriptor of the acknowledgements in the first process, if they go to one.
    fd: Option<i32>,
    is_started: bool,
    /// Lines of threads whose parent is not known yet.
    waiting: HashMap<u32, Vec<String>>,
}

impl Follower {
    pub(super) fn new(world: World, fd: Option<i32>) -> Follower {
        Follower {
            world,
            fd,
            is_started: false,
            waiting: HashMap::new(),
        }
    }

    /// Takes a line in.
    pub(super) fn line(&mut self, text: &str) -> Followed {
        let Some(line) = Line::parse(text) else {
            return Ok(());
        };
        if !self.is_started {
            self.world.start(line.task, self.fd);
            self.is_started = true;
        }
        if !self.world.tasks.contains_key(&line.task) && !self.adopt(line.task) {
            let waiting = self.waiting.entry(line.task).or_default();
            waiting.push(text.to_owned());
            return Ok(());
        }
        self.world.time = line.time;
        match line.event {
            Event::Call(text) => match Call::parse(text) {
                Some(call) => {
                    let before = self.enter(line.task, &call)?;
                    self.exit(line.task, &call, text, before)
                }
                None => Ok(()),
            },
            Event::Begun(text) => {
                if let Some(call) = Call::parse(text) {
                    let before = self.enter(line.task, &call)?;
                    let task = self.world.tasks.get_mut(&line.task);
                    let begun = Some((text.to_owned(), before));
                    task.into_iter().for_each(|task| task.begun = begun.clone());
                }
                Ok(())
            }
            Event::Resumed(rest) => {
                let task = self.world.tasks.get_mut(&line.task);
                let Some((begun, before)) = task.and_then(|task| task.begun.take()) else {
                    return Ok(());
                };
                let text = begun + rest;
                match Call::parse(&text) {
                    Some(call) => self.exit(line.task, &call, &text, before),
                    None => Ok(()),
                }
            }
            Event::Exited => {
                // The call of a killed thread may be done or not: `compare` excuses what it changes.
                if self.world.tasks[&line.task].begun.is_none() {
                    self.world.tasks.remove(&line.task);
                }
                Ok(())
            }
            Event::Superseded(other) => {
                if let Some(task) = self.world.tasks.remove(&other) {
                    self.world.tasks.insert(line.task, task);
                }
                Ok(())
            }
        }
    }

    /// Makes an unknown thread the child of the one thread that is making one; returns false if there are several.
    fn adopt(&mut self, child: u32) -> bool {
        let forks = |begun: &Option<(String, usize)>| {
            let text = begun.as_ref().map(|(text, _)| text.as_str());
            text.and_then(|text| text.split_once('('))
                .is_some_and(|(name, _)| FORKS.contains(&name))
        };
        let mut parents = self
            .world
            .tasks
            .iter()
            .filter(|(_, t)| forks(&t.begun) && !t.has_child);
        let (Some((parent, task)), None) = (parents.next(), parents.next()) else {
            return false;
        };
        let parent = *parent;
        let begun = task.begun.as_ref();
        let Some(call) = begun.and_then(|(text, _)| Call::parse(text)) else {
            return false;
        };
        self.world.fork(parent, child, &call);
        if let Some(task) = self.world.tasks.get_mut(&parent) {
            task.has_child = true;
        }
        true
    }

    fn enter(&mut self, task: u32, call: &Call) -> Followed<usize> {
        self.world.enter(task, call)?;
        Ok(self.world.history.ops.len())
    }

    fn exit(&mut self, task: u32, call: &Call, text: &str, before: usize) -> Followed {
        if call.result.is_none()
            && let Some(task) = self.world.tasks.get_mut(&task)
        {
            // A call within which the thread was killed.
            task.begun = Some((text.to_owned(), before));
        }
        if FORKS.contains(&&*call.name) {
            let child = call.result.unwrap_or(-1);
            if let Some(task) = self.world.tasks.get_mut(&task) {
                task.has_child = false;
            }
            if let Ok(child @ 1..) = u32::try_from(child)
                && !self.world.tasks.contains_key(&child)
            {
                self.world.fork(task, child, call);
                for line in self.waiting.remove(&child).unwrap_or_default() {
                    self.line(&line)?;
                }
            }
        }
        self.world.exit(task, call, before)
    }
}
