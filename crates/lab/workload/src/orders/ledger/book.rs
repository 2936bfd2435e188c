//! One client's pages of the ledger: written before a commit is asked for, and after it was answered.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Result;

use super::file::LedgerFile;

/// Something that a client asked the server to commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// A new order.
    Order(OrderEntry),
    /// A payment, which bears a mark of its own.
    Payment(PaymentEntry),
}

/// A new order, as it must be found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OrderEntry {
    /// Where it was taken.
    pub warehouse: i32,
    /// Where it was taken.
    pub district: i32,
    /// Its number there.
    pub order: i32,
    /// Whose it is.
    pub customer: i32,
    /// How many lines it has.
    pub lines: i32,
    /// The sum of their quantities.
    pub quantity: i32,
}

/// A payment, as it must be found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PaymentEntry {
    /// Where it was made.
    pub warehouse: i32,
    /// Where it was made.
    pub district: i32,
    /// Where the customer is at home.
    pub customer_warehouse: i32,
    /// Where the customer is at home.
    pub customer_district: i32,
    /// Who paid.
    pub customer: i32,
    /// How much, in hundredths.
    pub cents: i32,
}

/// An entry, when it was sent, and when it was acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written<T> {
    pub(super) entry: T,
    pub(super) sent: u32,
    /// `None` while the server has not answered.
    pub(super) acknowledged: Option<u32>,
}

/// What a client wrote; about forty bytes an entry.
#[derive(Default, Debug)]
pub(super) struct Pages {
    pub(super) orders: Vec<Written<OrderEntry>>,
    /// A payment's mark ends with its place here.
    pub(super) payments: Vec<Written<PaymentEntry>>,
    /// What was sent last is an order.
    is_order: bool,
}

impl Pages {
    pub(super) fn send(&mut self, entry: Entry, sent: u32) {
        self.is_order = matches!(entry, Entry::Order(_));
        match entry {
            Entry::Order(entry) => self.orders.push(Written { entry, sent, acknowledged: None }),
            Entry::Payment(entry) => self.payments.push(Written { entry, sent, acknowledged: None }),
        }
    }

    /// What was sent last was acknowledged; answers whether there was something.
    pub(super) fn acknowledge(&mut self, epoch: u32) -> bool {
        let last = if self.is_order {
            self.orders.last_mut().map(|written| &mut written.acknowledged)
        } else {
            self.payments.last_mut().map(|written| &mut written.acknowledged)
        };
        last.is_some_and(|acknowledged| acknowledged.replace(epoch).is_none())
    }

    /// What was sent last was refused; answers whether there was something.
    pub(super) fn withdraw(&mut self) -> bool {
        if self.is_order { self.orders.pop().is_some() } else { self.payments.pop().is_some() }
    }
}

/// The pages of a client that writes.
pub(in crate::orders) struct Book {
    pub(super) name: String,
    pub(super) number: usize,
    pub(super) pages: Arc<Mutex<Pages>>,
    pub(super) epoch: Arc<AtomicU32>,
    pub(super) file: Option<Arc<LedgerFile>>,
}

impl Book {
    /// The mark that the next payment must bear: at most 24 characters, as many as `H_DATA` has.
    pub(in crate::orders) fn next_mark(&self) -> String {
        let pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        format!("{}.{:x}.{:x}", self.name, self.number, pages.payments.len())
    }

    /// Before the commit is sent.
    pub(in crate::orders) fn send(&mut self, entry: Entry) -> Result<()> {
        let epoch = self.epoch.load(Ordering::SeqCst);
        self.pages.lock().unwrap_or_else(PoisonError::into_inner).send(entry, epoch);
        self.file.as_ref().map_or(Ok(()), |file| file.send(self.number, &entry, epoch))
    }

    /// The server acknowledged what was sent last.
    pub(in crate::orders) fn acknowledge(&mut self) -> Result<()> {
        let epoch = self.epoch.load(Ordering::SeqCst);
        let is_new = self.pages.lock().unwrap_or_else(PoisonError::into_inner).acknowledge(epoch);
        assert!(is_new, "what is acknowledged was sent, and is acknowledged once");
        self.file.as_ref().map_or(Ok(()), |file| file.acknowledge(self.number, epoch))
    }

    /// The server refused what was sent last.
    pub(in crate::orders) fn withdraw(&mut self) -> Result<()> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner).withdraw();
        self.file.as_ref().map_or(Ok(()), |file| file.withdraw(self.number))
    }
}
