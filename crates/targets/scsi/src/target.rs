//! A target: logical units by address, and the commands that are about all of them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::address::UnitAddress;
use crate::answer::Answer;
use crate::attention::Attention;
use crate::blocks::{PIECE_BYTES, STATUS_MEMORY_BYTES_MAX};
use crate::bytes::truncated;
use crate::copy;
use crate::inquiry;
use crate::parse::{self, Operation, Span};
use crate::reports;
use crate::reservation::Nexus;
use crate::sense::{Sense, code};
use crate::unit::Unit;

/// REPORT LUNS asked for well-known logical units only, of which there are none (SPC-4 table 270).
const SELECT_WELL_KNOWN: u8 = 1;

/// The port by which hosts reach a target, as INQUIRY and REPORT TARGET PORT GROUPS tell of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Port {
    /// Relative target port identifier, from 1.
    pub relative_id: u16,
    /// Target port group.
    pub group: u16,
    /// The port's name: for iSCSI the target's name, `,t,0x` and the portal group tag (RFC 7143 4.3).
    pub name: String,
    /// The target's name.
    pub device_name: String,
}

/// Logical units under one name. A host that is to see some of a device's units gets a target of its own of
/// the same name.
pub struct Target {
    port: Port,
    units: RefCell<BTreeMap<UnitAddress, Rc<Unit>>>,
    nexuses: RefCell<BTreeSet<Nexus>>,
}

/// What became of a command that has arrived.
pub enum Begun {
    /// It needs the device: bring its data, then run it.
    Work(Work),
    /// It is answered.
    Answered(Answer),
}

/// A command that passed every check that needs no data.
pub struct Work {
    target: Rc<Target>,
    address: UnitAddress,
    unit: Rc<Unit>,
    nexus: Nexus,
    operation: Operation,
    wanted_bytes: u64,
    stop: Stop,
}

/// The wish that a command ends before it is done.
#[derive(Clone, Default)]
pub struct Stop(Rc<Cell<bool>>);

impl Stop {
    /// Ends the command at the next place where that may be.
    pub fn ask(&self) {
        self.0.set(true);
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.0.get()
    }
}

impl Target {
    /// A target without units.
    #[must_use]
    pub fn new(port: Port) -> Rc<Target> {
        Rc::new(Target { port, units: RefCell::default(), nexuses: RefCell::default() })
    }

    /// The port hosts come in by.
    #[must_use]
    pub fn port(&self) -> &Port {
        &self.port
    }

    /// The unit at this address.
    #[must_use]
    pub fn unit(&self, address: UnitAddress) -> Option<Rc<Unit>> {
        self.units.borrow().get(&address).cloned()
    }

    /// Every unit with its address, in order.
    #[must_use]
    pub fn units(&self) -> Vec<(UnitAddress, Rc<Unit>)> {
        self.units.borrow().iter().map(|(address, unit)| (*address, unit.clone())).collect()
    }

    /// Puts a unit at a free address, and tells everybody. False where there is one already.
    #[must_use]
    pub fn add(&self, address: UnitAddress, unit: Rc<Unit>) -> bool {
        if self.units.borrow().contains_key(&address) {
            return false;
        }
        for nexus in self.nexuses.borrow().iter() {
            unit.attach(nexus);
        }
        self.units.borrow_mut().insert(address, unit);
        self.tell(Attention::ReportedUnitsChanged, None);
        true
    }

    /// Takes a unit away, and tells everybody. Commands under way end as
    /// they would, but for those of a unit that is retired.
    pub fn remove(&self, address: UnitAddress) -> Option<Rc<Unit>> {
        let unit = self.units.borrow_mut().remove(&address)?;
        self.nexuses.borrow().iter().for_each(|nexus| unit.detach(nexus));
        self.tell(Attention::ReportedUnitsChanged, None);
        Some(unit)
    }

    /// A nexus comes, or comes again.
    pub fn attach(&self, nexus: &Nexus) {
        self.nexuses.borrow_mut().insert(nexus.clone());
        self.units.borrow().values().for_each(|unit| unit.attach(nexus));
    }

    /// A nexus is lost.
    pub fn detach(&self, nexus: &Nexus) {
        self.nexuses.borrow_mut().remove(nexus);
        self.units.borrow().values().for_each(|unit| unit.detach(nexus));
    }

    /// Tells every nexus but one, at every unit.
    pub fn tell(&self, attention: Attention, except: Option<&Nexus>) {
        self.units.borrow().values().for_each(|unit| unit.tell(attention, except));
    }

    /// Takes a command as far as it goes without data. `address` is `None` where the one on the wire can be
    /// no unit's; `offered_bytes` is how much data-out the host would bring.
    pub fn begin(
        self: &Rc<Target>,
        nexus: &Nexus,
        address: Option<UnitAddress>,
        cdb: &[u8],
        offered_bytes: u64,
    ) -> Begun {
        let found = address.and_then(|address| self.unit(address).map(|unit| (address, unit)));
        let Some((address, unit)) = found else {
            return Begun::Answered(self.answer_absent(nexus, cdb));
        };
        match unit.begin(nexus, cdb, offered_bytes) {
            Ok(asked) => {
                let wanted_bytes = asked.data_out_bytes(unit.block_bytes());
                let operation = asked.cut_to(offered_bytes, unit.block_bytes());
                let nexus = nexus.clone();
                let stop = Stop::default();
                Begun::Work(Work {
                    target: self.clone(),
                    address,
                    unit,
                    nexus,
                    operation,
                    wanted_bytes,
                    stop,
                })
            }
            Err(answer) => Begun::Answered(answer),
        }
    }

    /// What a unit that is not there answers (SPC-4 4.2.5.3 and 5.11): three commands, and LOGICAL UNIT NOT
    /// SUPPORTED to all others.
    fn answer_absent(&self, nexus: &Nexus, cdb: &[u8]) -> Answer {
        let unsupported = Sense::illegal(code::UNIT_NOT_SUPPORTED);
        let operation = parse::lookup(cdb).and_then(|entry| parse::operation(entry, cdb));
        match operation {
            Ok(Operation::Inquiry { page: None, allocation }) => {
                Answer::parameters(truncated(inquiry::absent(), allocation))
            }
            Ok(Operation::ReportUnits { select, allocation }) => self.report_units(nexus, select, allocation),
            Ok(Operation::RequestSense { is_descriptor, allocation }) => {
                Answer::parameters(truncated(unsupported.encoded(is_descriptor), allocation))
            }
            Err(sense) if sense.code == code::INVALID_FIELD_IN_CDB && is_answered_by_absent(cdb) => {
                Answer::check(&sense, false)
            }
            Ok(_) | Err(_) => Answer::check(&unsupported, false),
        }
    }

    fn report_units(&self, nexus: &Nexus, select: u8, allocation: usize) -> Answer {
        let units = self.units.borrow();
        let is_told = |_: &UnitAddress| select != SELECT_WELL_KNOWN;
        let bytes = reports::units(units.keys().copied().filter(is_told));
        // Whoever has the list needs no word that it changed (SPC-4 6.33).
        units.values().for_each(|unit| unit.forget(nexus, Attention::ReportedUnitsChanged));
        Answer::parameters(truncated(bytes, allocation))
    }
}

/// INQUIRY, REPORT LUNS and REQUEST SENSE are answered where no unit is, so their fields count there too.
fn is_answered_by_absent(cdb: &[u8]) -> bool {
    matches!(cdb.first(), Some(0x03 | 0x12 | 0xa0))
}

impl Work {
    /// The operation.
    #[must_use]
    pub fn operation(&self) -> &Operation {
        &self.operation
    }

    /// Where its unit is.
    #[must_use]
    pub fn address(&self) -> UnitAddress {
        self.address
    }

    /// The unit it is for.
    #[must_use]
    pub fn unit(&self) -> &Rc<Unit> {
        &self.unit
    }

    /// Bytes of data-out that the CDB asks for, of which the host may bring less.
    #[must_use]
    pub fn wanted_bytes(&self) -> u64 {
        self.wanted_bytes
    }

    /// Bytes of data-out that [`Work::run`] must be given; the host offered as many at least.
    #[must_use]
    pub fn data_out_bytes(&self) -> u64 {
        self.operation.data_out_bytes(self.unit.block_bytes())
    }

    /// Bytes of data that the answer will have.
    #[must_use]
    pub fn data_in_bytes_max(&self) -> u64 {
        match self.operation {
            Operation::Read { span } => span.blocks.saturating_mul(u64::from(self.unit.block_bytes())),
            _ => 0,
        }
    }

    /// Bytes of memory that the command takes beside its data-out, for the transport's budget.
    #[must_use]
    pub fn memory_bytes_max(&self) -> u64 {
        let bytes = |span: Span| span.blocks.saturating_mul(u64::from(self.unit.block_bytes()));
        match self.operation {
            Operation::Read { span }
            | Operation::CompareAndWrite { span, .. }
            | Operation::OrWrite { span, .. } => bytes(span),
            Operation::Verify { span, .. }
            | Operation::WriteAndVerify { span, .. }
            | Operation::WriteSame { span, .. } => bytes(span).min(PIECE_BYTES),
            Operation::Prefetch(_) | Operation::ExtendedCopy { .. } => PIECE_BYTES,
            Operation::GetBlockStatus { .. } => STATUS_MEMORY_BYTES_MAX,
            _ => 0,
        }
    }

    /// How it can be ended before it is done; `None` of those that always run to their end.
    #[must_use]
    pub fn stop(&self) -> Option<Stop> {
        matches!(self.operation, Operation::ExtendedCopy { .. }).then(|| self.stop.clone())
    }

    /// Carries the command out. Runs to its end once begun, but for what [`Work::stop`] ends: a transport
    /// that no longer wants the answer throws it away.
    pub async fn run(self, data_out: &[u8]) -> Answer {
        match self.operation {
            Operation::Inquiry { page, allocation } => match self.unit.inquire(&self.target.port, page) {
                Ok(bytes) => Answer::parameters(truncated(bytes, allocation)),
                Err(sense) => self.unit.refused(sense.into()),
            },
            Operation::ReportUnits { select, allocation } => {
                self.target.report_units(&self.nexus, select, allocation)
            }
            Operation::ReportTargetPortGroups { is_extended, allocation } => {
                let bytes = reports::port_groups(&self.target.port, is_extended);
                Answer::parameters(truncated(bytes, allocation))
            }
            Operation::ExtendedCopy { length } => {
                // More than was announced is not for the list.
                let list = data_out.get(..length).unwrap_or(data_out);
                let copied = copy::run(&self.target, &self.unit, &self.nexus, list, &self.stop).await;
                copied.unwrap_or_else(|refusal| self.unit.refused(refusal))
            }
            operation => self.unit.run(&self.nexus, operation, data_out).await,
        }
    }
}
