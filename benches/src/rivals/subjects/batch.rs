//! Batching by the caller, for logs without group commit: one thread takes all waiting records, saves
//! them at once, and answers all their writers. It never waits for more records.

use anyhow::{Context, Result, anyhow};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

/// A log without group commit, which one thread writes.
pub trait BatchedLog: Send {
    /// Makes the records durable, in this order, with one write of the log.
    ///
    /// # Errors
    /// Returns the log's error.
    fn save(&mut self, records: Vec<Vec<u8>>) -> Result<()>;

    /// Closes the log.
    ///
    /// # Errors
    /// Returns the log's error.
    fn close(self) -> Result<()>;
}

/// A record, and the channel on which its writer waits.
struct Request {
    record: Vec<u8>,
    answer: SyncSender<Result<(), String>>,
}

/// The thread that saves the records.
pub struct Batcher {
    requests: Sender<Request>,
    thread: JoinHandle<Result<()>>,
}

impl Batcher {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub fn start(log: impl BatchedLog + 'static) -> Result<Batcher> {
        let (requests, waiting) = channel();
        let thread = thread::Builder::new()
            .name("batcher".to_owned())
            .spawn(move || run(log, &waiting))
            .context("cannot start a thread")?;
        Ok(Batcher { requests, thread })
    }

    /// Commits a record together with others that wait; it is durable when this returns.
    ///
    /// # Errors
    /// Returns the log's error, or an error if the thread has panicked.
    pub fn commit(&self, record: &[u8]) -> Result<()> {
        let (answer, answered) = sync_channel(1);
        let record = record.to_vec();
        let ended = "the thread that writes the log has ended";
        let sent = self.requests.send(Request { record, answer });
        // The error holds the record, which is not wanted.
        sent.ok().context(ended)?;
        answered.recv().context(ended)?.map_err(|e| anyhow!(e))
    }

    /// Ends the thread and closes the log. No commit may be in progress.
    ///
    /// # Errors
    /// Returns the log's error, or an error if the thread has panicked.
    pub fn end(self) -> Result<()> {
        drop(self.requests);
        self.thread
            .join()
            .map_err(|_| anyhow!("the thread that writes the log has panicked"))?
    }
}

fn run(mut log: impl BatchedLog, requests: &Receiver<Request>) -> Result<()> {
    while let Ok(first) = requests.recv() {
        let mut records = vec![first.record];
        let mut answers = vec![first.answer];
        for next in requests.try_iter() {
            records.push(next.record);
            answers.push(next.answer);
        }
        let saved = log.save(records).map_err(|e| format!("{e:#}"));
        for answer in answers {
            // The writer is gone only if its thread has ended.
            let _ = answer.send(saved.clone());
        }
    }
    log.close()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;
    use std::sync::{Arc, Mutex};

    /// A log that collects its batches and refuses the record `bad`.
    struct Collecting {
        batches: Arc<Mutex<Vec<Vec<Vec<u8>>>>>,
        go: Receiver<()>,
    }

    impl BatchedLog for Collecting {
        fn save(&mut self, records: Vec<Vec<u8>>) -> Result<()> {
            self.go.recv()?;
            let bad = records.iter().any(|r| r == b"bad");
            self.batches.lock().unwrap().push(records);
            if bad {
                bail!("a bad record");
            }
            Ok(())
        }

        fn close(self) -> Result<()> {
            bail!("closed")
        }
    }

    #[test]
    fn records_that_wait_are_saved_together_and_get_the_same_answer() {
        let batches = Arc::new(Mutex::new(Vec::new()));
        let (went, go) = channel();
        let log = Collecting {
            batches: Arc::clone(&batches),
            go,
        };
        let (requests, waiting) = channel();
        let mut answers = Vec::new();
        let mut ask = |record: &[u8]| {
            let (answer, answered) = sync_channel(1);
            let record = record.to_vec();
            requests.send(Request { record, answer }).unwrap();
            answers.push(answered);
        };
        ask(b"one");
        ask(b"bad");
        drop(requests);
        went.send(()).unwrap();
        assert_eq!(run(log, &waiting).unwrap_err().to_string(), "closed");
        assert_eq!(
            *batches.lock().unwrap(),
            [[b"one".to_vec(), b"bad".to_vec()]]
        );
        for answered in answers {
            assert_eq!(answered.recv().unwrap(), Err("a bad record".to_owned()));
        }
    }

    #[test]
    fn a_commit_returns_after_its_save() {
        let batches = Arc::new(Mutex::new(Vec::new()));
        let (went, go) = channel();
        let log = Collecting {
            batches: Arc::clone(&batches),
            go,
        };
        let batcher = Batcher::start(log).unwrap();
        thread::scope(|scope| {
            let committed = scope.spawn(|| batcher.commit(b"one"));
            assert!(batches.lock().unwrap().is_empty());
            went.send(()).unwrap();
            committed.join().unwrap().unwrap();
        });
        assert_eq!(*batches.lock().unwrap(), [[b"one".to_vec()]]);
        assert_eq!(batcher.end().unwrap_err().to_string(), "closed");
    }
}
