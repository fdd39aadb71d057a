//! Futures in threads of the simulated runtime.

use logforce_device::Runtime;
use logforce_device::sync::AtomicU32;
use logforce_testkit::SimRuntime;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll, Wake};

/// Counter that a thread of the simulated runtime waits on.
pub struct Word {
    count: AtomicU32,
    rt: SimRuntime,
}

impl Word {
    /// Creates a counter.
    pub fn new(rt: &SimRuntime) -> Arc<Word> {
        Arc::new(Word {
            count: AtomicU32::new(0),
            rt: rt.clone(),
        })
    }
}

impl Wake for Word {
    fn wake(self: Arc<Self>) {
        self.count.fetch_add(1, SeqCst);
        self.rt.wake_all(&self.count);
    }
}

/// Polls a future in this thread until it is ready.
pub fn block_on<T>(rt: &SimRuntime, future: impl Future<Output = T>) -> T {
    let word = Word::new(rt);
    let waker = word.clone().into();
    let mut future = pin!(future);
    loop {
        let seen = word.count.load(SeqCst);
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        rt.wait(&word.count, seen, None);
    }
}
