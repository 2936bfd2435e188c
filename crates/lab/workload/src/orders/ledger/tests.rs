//! The ledger without a server: its epochs, its file, and how it is read back.

use super::book::Written;
use super::*;

fn order(number: i32) -> Entry {
    Entry::Order(OrderEntry { warehouse: 1, district: 2, order: number, customer: 4, lines: 5, quantity: 6 })
}

fn payment(cents: i32) -> Entry {
    let (customer_warehouse, customer_district) = (7, 8);
    let payment =
        PaymentEntry { warehouse: 1, district: 2, customer_warehouse, customer_district, customer: 3, cents };
    Entry::Payment(payment)
}

fn ledger(path: Option<&Path>) -> Ledger {
    let base = Base { next_orders: [((1, 2), 41)].into(), payments: 300 };
    let name = "0a1b2c3d".to_string();
    let file = path.map(|path| Arc::new(LedgerFile::create(path, &name, &base).unwrap()));
    Ledger { name, base, epoch: Arc::default(), pages: Mutex::default(), file }
}

/// Orders and payments of all books: entry, sent, acknowledged.
fn written(ledger: &Ledger) -> String {
    let all = ledger.pages.lock().unwrap();
    all.iter().map(|pages| format!("{:?}\n", pages.lock().unwrap())).collect()
}

#[test]
fn a_ledger_is_read_back_as_it_was_written_and_a_cut_line_is_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger");
    let ledger = ledger(Some(&path));
    let (mut first, mut second) = (ledger.book(), ledger.book());
    first.send(order(41)).unwrap();
    second.send(payment(100)).unwrap();
    first.acknowledge().unwrap();
    second.withdraw().unwrap();
    let (mark, ()) = ledger.mark(|| ());
    second.send(payment(200)).unwrap();
    second.acknowledge().unwrap();
    first.send(order(42)).unwrap();
    let read = Ledger::read(&path).unwrap();
    assert_eq!((&read.name, &read.base), (&ledger.name, &ledger.base));
    assert_eq!(written(&read), written(&ledger));
    assert!(read.now().begin > mark.end, "what was acknowledged before is before any new mark");
    let mut text = std::fs::read_to_string(&path).unwrap();
    text.push_str("a 0 2");
    std::fs::write(&path, &text).unwrap();
    assert_eq!(written(&Ledger::read(&path).unwrap()), written(&ledger));
    std::fs::write(&path, format!("{text}\na 1 2\n")).unwrap();
    let error = Ledger::read(&path).err().unwrap();
    assert!(error.context.contains("is damaged: \"a 1 2\""), "nothing was left to acknowledge: {error}");
    std::fs::write(&path, "other\n").unwrap();
    assert!(Ledger::read(&path).err().unwrap().context.contains("is not a ledger"));
    assert!(LedgerFile::create(&path, "x", &Base::default()).is_err(), "no ledger is written over");
}

#[test]
fn a_payments_mark_is_its_own_and_fits_its_column() {
    let ledger = ledger(None);
    ledger.book();
    let mut book = ledger.book();
    assert_eq!(book.next_mark(), "0a1b2c3d.1.0");
    book.send(payment(1)).unwrap();
    assert_eq!(book.next_mark(), "0a1b2c3d.1.1");
    book.withdraw().unwrap();
    assert_eq!(book.next_mark(), "0a1b2c3d.1.0", "what was refused left nothing");
    assert!("0a1b2c3d.fffff.fffffff".len() <= 24);
}

#[test]
fn an_entry_before_a_mark_must_one_after_it_must_not_and_one_across_it_may_be_there() {
    let ledger = ledger(None);
    let epoch = || ledger.epoch.load(Ordering::SeqCst);
    let before = Written { entry: (), sent: epoch(), acknowledged: Some(epoch()) };
    let lost = Written { acknowledged: None, ..before };
    let mut across = lost;
    let mut within = lost;
    let (mark, ()) = ledger.mark(|| {
        within.sent = epoch();
        across.acknowledged = Some(epoch());
        within.acknowledged = across.acknowledged;
    });
    let after = Written { entry: (), sent: epoch(), acknowledged: Some(epoch()) };
    let standings =
        [before, across, within, lost, after].map(|written| format!("{:?}", written.standing(mark)));
    assert_eq!(standings, ["Present", "Unknown", "Unknown", "Unknown", "Absent"]);
    let now = ledger.now();
    let standings = [across, within, lost, after].map(|written| format!("{:?}", written.standing(now)));
    assert_eq!(standings, ["Present", "Present", "Unknown", "Present"]);
}
