//! Somebody at work beside the hosts, until he is sent home.

use std::cell::Cell;
use std::rc::Rc;

use ashlar_runtime::{Priority, Runtime, Task};

/// One at work. He must be sent home before the pool is closed.
pub struct Attendant {
    is_over: Rc<Cell<bool>>,
    task: Task<()>,
}

impl Attendant {
    /// Begins a shift; `work` is given what tells it that the shift is over.
    pub fn start<F: Future<Output = ()> + 'static>(
        runtime: &Runtime,
        work: impl FnOnce(Rc<Cell<bool>>) -> F,
    ) -> Attendant {
        let is_over = Rc::new(Cell::new(false));
        let task = runtime.spawn(Priority::Host, work(is_over.clone()));
        Attendant { is_over, task }
    }

    /// Waits until he has put down what he has in his hands.
    pub async fn send_home(self) {
        self.is_over.set(true);
        self.task.await;
    }
}
