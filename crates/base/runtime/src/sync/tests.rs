//! Local waiting is first come first served, and dropping a waiter loses nothing.

#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::*;

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_semaphore_serves_in_order_even_when_a_later_request_would_fit() {
    let semaphore = Semaphore::new(1);
    let mut large = semaphore.acquire(2);
    let mut small = semaphore.acquire(1);
    assert!(poll(&mut large).is_pending());
    assert!(poll(&mut small).is_pending());
    assert!(semaphore.try_acquire(1).is_none());
    semaphore.add_permits(1);
    assert!(poll(&mut small).is_pending());
    let Poll::Ready(permit) = poll(&mut large) else { panic!("two permits were free") };
    assert_eq!(permit.count(), 2);
    drop(permit);
    assert!(poll(&mut small).is_ready());
    assert_eq!(semaphore.available(), 2);
}

#[test]
fn a_waiter_dropped_before_or_after_being_served_loses_no_permit() {
    let semaphore = Semaphore::new(0);
    let mut first = semaphore.acquire(1);
    let mut second = semaphore.acquire(1);
    assert!(poll(&mut first).is_pending());
    assert!(poll(&mut second).is_pending());
    semaphore.add_permits(1);
    drop(first);
    assert!(poll(&mut second).is_ready());
    assert_eq!(semaphore.available(), 1);
    let mut large = semaphore.acquire(5);
    let mut small = semaphore.acquire(1);
    assert!(poll(&mut large).is_pending());
    assert!(poll(&mut small).is_pending());
    drop(large);
    assert!(poll(&mut small).is_ready());
}

#[test]
fn a_mutex_passes_in_order_of_asking() {
    let mutex = Rc::new(Mutex::new(Vec::new()));
    let held = mutex.try_lock().unwrap();
    let mut waiting: Vec<_> = (0..3).map(|index| Box::pin(push(mutex.clone(), index))).collect();
    for future in &mut waiting {
        assert!(poll(future).is_pending());
    }
    drop(held);
    assert!(poll(&mut waiting[2]).is_pending());
    assert!(poll(&mut waiting[1]).is_pending());
    assert!(poll(&mut waiting[0]).is_ready());
    assert!(poll(&mut waiting[1]).is_ready());
    assert!(poll(&mut waiting[2]).is_ready());
    assert_eq!(*mutex.try_lock().unwrap(), [0, 1, 2]);
}

async fn push(mutex: Rc<Mutex<Vec<u32>>>, value: u32) {
    mutex.lock().await.push(value);
}

#[test]
fn a_bell_keeps_one_ring_and_passes_on_what_a_dropped_waiter_got() {
    let bell = Notify::new();
    bell.notify_one();
    bell.notify_one();
    assert!(poll(&mut bell.notified()).is_ready());
    let mut first = bell.notified();
    let mut second = bell.notified();
    assert!(poll(&mut first).is_pending());
    assert!(poll(&mut second).is_pending());
    bell.notify_one();
    drop(first);
    assert!(poll(&mut second).is_ready());
    let mut early = bell.notified();
    bell.notify_waiters();
    assert!(poll(&mut early).is_ready());
    assert!(poll(&mut bell.notified()).is_pending());
}

#[test]
fn a_oneshot_tells_of_a_sender_or_receiver_gone() {
    let (sender, mut receiver) = oneshot();
    assert!(poll(&mut receiver).is_pending());
    sender.send(5).unwrap();
    assert_eq!(poll(&mut receiver), Poll::Ready(Ok(5)));
    let (sender, mut receiver) = oneshot::<u32>();
    drop(sender);
    assert_eq!(poll(&mut receiver), Poll::Ready(Err(Closed)));
    let (sender, receiver) = oneshot();
    drop(receiver);
    assert_eq!(sender.send(6), Err(6));
}

#[test]
fn a_channel_keeps_order_holds_senders_back_and_ends() {
    let (sender, mut receiver) = channel(2);
    sender.try_send(1).unwrap();
    sender.try_send(2).unwrap();
    assert_eq!(sender.try_send(9), Err(TrySendError::Full(9)));
    let mut third = Box::pin(sender.send(3));
    assert!(poll(&mut third).is_pending());
    assert_eq!(receiver.try_recv(), Ok(1));
    assert_eq!(poll(&mut third), Poll::Ready(Ok(())));
    drop(third);
    assert_eq!(receiver.try_recv(), Ok(2));
    assert_eq!(receiver.try_recv(), Ok(3));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    drop(sender);
    assert_eq!(poll(&mut Box::pin(receiver.recv())), Poll::Ready(None));
}

#[test]
fn senders_waiting_for_room_learn_that_the_receiver_left() {
    let (sender, receiver) = channel(1);
    sender.try_send(1).unwrap();
    let mut waiting = Box::pin(sender.send(2));
    assert!(poll(&mut waiting).is_pending());
    drop(receiver);
    assert_eq!(poll(&mut waiting), Poll::Ready(Err(SendError(2))));
    assert_eq!(sender.try_send(3), Err(TrySendError::Closed(3)));
}

#[test]
fn values_left_in_a_channel_are_dropped_with_nothing_borrowed() {
    struct Probe(Rc<RefCell<Option<Sender<Probe>>>>);
    impl Drop for Probe {
        fn drop(&mut self) {
            assert!(self.0.borrow().as_ref().is_none_or(Sender::is_closed));
        }
    }
    let (sender, receiver) = channel(1);
    let shared = Rc::new(RefCell::new(Some(sender.clone())));
    sender.try_send(Probe(shared.clone())).ok().unwrap();
    drop(receiver);
    shared.borrow_mut().take();
}
