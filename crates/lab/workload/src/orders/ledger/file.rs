//! The ledger as a file of lines, so that it outlives whoever wrote it.
//!
//! ```text
//! ashlar-ledger 1 NAME PAYMENTS           payments that were there before
//! b WAREHOUSE DISTRICT NEXT               the district's next order number at the beginning
//! o BOOK EPOCH WAREHOUSE DISTRICT ORDER CUSTOMER LINES QUANTITY
//! p BOOK EPOCH WAREHOUSE DISTRICT CUSTOMER-WAREHOUSE CUSTOMER-DISTRICT CUSTOMER CENTS
//! a BOOK EPOCH                            what the book sent last was acknowledged
//! w BOOK                                  what the book sent last was refused
//! ```
//! A line is one write, before its commit is sent: it outlives this process, not the machine's loss of power.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, Result};

use super::book::{Entry, OrderEntry, Pages, PaymentEntry};
use super::{Base, Ledger};

const HEAD: &str = "ashlar-ledger 1";

/// A ledger's file while it is written.
pub(super) struct LedgerFile {
    file: Mutex<File>,
    shown: String,
}

impl LedgerFile {
    pub(super) fn create(path: &Path, name: &str, base: &Base) -> Result<LedgerFile> {
        let shown = path.display().to_string();
        let file = OpenOptions::new().append(true).create_new(true).open(path);
        let file = Mutex::new(file.map_err(|error| cannot("create", &shown, &error))?);
        let file = LedgerFile { file, shown };
        let mut text = format!("{HEAD} {name} {}\n", base.payments);
        for ((warehouse, district), next) in &base.next_orders {
            text.push_str(&format!("b {warehouse} {district} {next}\n"));
        }
        file.write(&text)?;
        Ok(file)
    }

    pub(super) fn send(&self, book: usize, entry: &Entry, epoch: u32) -> Result<()> {
        self.write(&match entry {
            Entry::Order(OrderEntry { warehouse, district, order, customer, lines, quantity }) => {
                format!("o {book} {epoch} {warehouse} {district} {order} {customer} {lines} {quantity}\n")
            }
            Entry::Payment(payment) => {
                let PaymentEntry { warehouse, district, customer_warehouse, .. } = payment;
                let PaymentEntry { customer_district, customer, cents, .. } = payment;
                let of = format!("{customer_warehouse} {customer_district} {customer}");
                format!("p {book} {epoch} {warehouse} {district} {of} {cents}\n")
            }
        })
    }

    pub(super) fn acknowledge(&self, book: usize, epoch: u32) -> Result<()> {
        self.write(&format!("a {book} {epoch}\n"))
    }

    pub(super) fn withdraw(&self, book: usize) -> Result<()> {
        self.write(&format!("w {book}\n"))
    }

    fn write(&self, text: &str) -> Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(text.as_bytes()).map_err(|error| cannot("write", &self.shown, &error))
    }
}

fn cannot(what: &str, path: &str, error: &std::io::Error) -> Error {
    Error::environment(format!("{what} ledger {path}: {error}"))
}

/// Reads a whole ledger. A last line without its end was cut off with its writer.
pub(super) fn read(path: &Path) -> Result<Ledger> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| cannot("read", &shown, &error))?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut lines = whole.lines();
    let mut reading = Reading::begin(lines.next().unwrap_or_default())
        .ok_or_else(|| Error::environment(format!("{shown} is not a ledger")))?;
    for (index, line) in lines.enumerate() {
        reading.line(line).ok_or_else(|| {
            Error::environment(format!("ledger {shown}: line {} is damaged: {line:?}", index + 2))
        })?;
    }
    Ok(reading.ledger())
}

struct Reading {
    name: String,
    base: Base,
    pages: Vec<Pages>,
    epoch_max: u32,
}

impl Reading {
    fn begin(head: &str) -> Option<Reading> {
        let (name, payments) = head.strip_prefix(HEAD)?.trim_start().split_once(' ')?;
        let base = Base { payments: payments.parse().ok()?, ..Base::default() };
        Some(Reading { name: name.into(), base, pages: Vec::new(), epoch_max: 0 })
    }

    /// `None` of a line that no ledger has.
    fn line(&mut self, line: &str) -> Option<()> {
        let (what, rest) = line.split_once(' ')?;
        let numbers: Vec<i32> = rest.split(' ').map(|field| field.parse().ok()).collect::<Option<_>>()?;
        match (what, &numbers[..]) {
            ("b", &[warehouse, district, next]) => {
                self.base.next_orders.insert((warehouse, district), next);
            }
            ("o", &[book, epoch, warehouse, district, order, customer, lines, quantity]) => {
                let entry = OrderEntry { warehouse, district, order, customer, lines, quantity };
                let epoch = self.seen(epoch)?;
                self.pages(book)?.send(Entry::Order(entry), epoch);
            }
            ("p", &[book, epoch, warehouse, district, of_warehouse, of_district, customer, cents]) => {
                let entry = PaymentEntry {
                    warehouse,
                    district,
                    customer_warehouse: of_warehouse,
                    customer_district: of_district,
                    customer,
                    cents,
                };
                let epoch = self.seen(epoch)?;
                self.pages(book)?.send(Entry::Payment(entry), epoch);
            }
            ("a", &[book, epoch]) => {
                let epoch = self.seen(epoch)?;
                self.pages(book)?.acknowledge(epoch).then_some(())?;
            }
            ("w", &[book]) => self.pages(book)?.withdraw().then_some(())?,
            _ => return None,
        }
        Some(())
    }

    fn seen(&mut self, epoch: i32) -> Option<u32> {
        let epoch = u32::try_from(epoch).ok()?;
        self.epoch_max = self.epoch_max.max(epoch);
        Some(epoch)
    }

    fn pages(&mut self, book: i32) -> Option<&mut Pages> {
        // Far above the sessions that any server takes.
        let index = usize::try_from(book).ok().filter(|index| *index < 1 << 20)?;
        if index >= self.pages.len() {
            self.pages.resize_with(index + 1, Pages::default);
        }
        self.pages.get_mut(index)
    }

    fn ledger(self) -> Ledger {
        let pages = self.pages.into_iter().map(|pages| Arc::new(Mutex::new(pages))).collect();
        Ledger {
            name: self.name,
            base: self.base,
            epoch: Arc::new((self.epoch_max + 1).into()),
            pages: Mutex::new(pages),
            file: None,
        }
    }
}
