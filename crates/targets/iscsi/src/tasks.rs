//! Commands of one session: the data they wait for, and what is still to be asked for (RFC 7143 4.2.4, 11.7,
//! 11.8).
//!
//! ```text
//!   Arrived ──accept──► Gathering ──all data──► Running ──answer──► gone
//!      └────────────────── answer ───────────────┴── aborted: the answer is thrown away
//! ```

use std::collections::{BTreeMap, VecDeque};

use ashlar_runtime::Buf;
use ashlar_scsi::code;

use crate::wire::{DataOut, NO_TAG};

/// A part of the data that was asked for.
struct Transfer {
    tag: u32,
    next: u32,
    end: u32,
    data_sn: u32,
}

/// A request for data that goes out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Asked {
    pub transfer_tag: u32,
    pub r2t_sn: u32,
    pub offset: u32,
    pub length: u32,
}

/// The data of a command that have not all come.
pub(crate) struct Gathering {
    buffer: Buf,
    /// Unsolicited data may go on at this offset, with this number; `None` once their last has come.
    unsolicited: Option<(u32, u32)>,
    /// Where unsolicited data must end.
    unsolicited_end: u32,
    transfers: VecDeque<Transfer>,
    /// Up to here everything has come or was asked for.
    asked: u32,
    r2t_sn: u32,
}

impl Gathering {
    /// Takes the immediate data. Unsolicited data follow unless `is_final`, up to `first_burst` or the end of
    /// what the host announced.
    pub fn new(mut buffer: Buf, immediate: &[u8], is_final: bool, unsolicited_end: u32) -> Gathering {
        let taken = immediate.len().min(buffer.len());
        buffer[..taken].copy_from_slice(&immediate[..taken]);
        let arrived = immediate.len() as u32;
        Gathering {
            buffer,
            unsolicited: (!is_final).then_some((arrived, 0)),
            unsolicited_end,
            transfers: VecDeque::new(),
            asked: arrived,
            r2t_sn: 0,
        }
    }

    fn wanted(&self) -> u32 {
        self.buffer.len() as u32
    }

    pub fn is_complete(&self) -> bool {
        self.unsolicited.is_none() && self.transfers.is_empty() && self.asked >= self.wanted()
    }

    pub fn into_buffer(self) -> Buf {
        self.buffer
    }

    /// What to ask for now: nothing while unsolicited data come.
    pub fn ask(&mut self, burst_max: u32, transfers_max: u32, next_tag: &mut u32) -> Vec<Asked> {
        let mut asked = Vec::new();
        while self.unsolicited.is_none()
            && self.asked < self.wanted()
            && self.transfers.len() < transfers_max as usize
        {
            let (offset, length) = (self.asked, burst_max.min(self.wanted() - self.asked));
            let transfer_tag = take_tag(next_tag);
            self.transfers.push_back(Transfer {
                tag: transfer_tag,
                next: offset,
                end: offset + length,
                data_sn: 0,
            });
            asked.push(Asked { transfer_tag, r2t_sn: self.r2t_sn, offset, length });
            self.asked += length;
            self.r2t_sn += 1;
        }
        asked
    }

    /// Takes data. They must be the next of their sequence; the error is the code the command ends with.
    pub fn take(&mut self, header: &DataOut, data: &[u8]) -> Result<(), u16> {
        let length = data.len() as u32;
        if header.transfer_tag == NO_TAG {
            let (offset, data_sn) = self.unsolicited.ok_or(code::UNEXPECTED_UNSOLICITED_DATA)?;
            let end = checked_end(header, offset, data_sn, length, self.unsolicited_end)?;
            self.copy(offset, data);
            self.asked = end;
            self.unsolicited = (!header.is_final).then_some((end, data_sn + 1));
            return Ok(());
        }
        // Sequences come in order (DataSequenceInOrder=Yes), so it is the first that was asked for.
        let transfer = self.transfers.front_mut().filter(|transfer| transfer.tag == header.transfer_tag);
        let transfer = transfer.ok_or(code::INCORRECT_AMOUNT_OF_DATA)?;
        let offset = transfer.next;
        let end = checked_end(header, offset, transfer.data_sn, length, transfer.end)?;
        transfer.next = end;
        transfer.data_sn += 1;
        let is_over = end == transfer.end;
        if header.is_final != is_over {
            return Err(code::INCORRECT_AMOUNT_OF_DATA);
        }
        if is_over {
            self.transfers.pop_front();
        }
        self.copy(offset, data);
        Ok(())
    }

    /// Puts data in their place; what the host sends beyond what its command needs is let go.
    fn copy(&mut self, offset: u32, data: &[u8]) {
        let start = (offset as usize).min(self.buffer.len());
        let end = (start + data.len()).min(self.buffer.len());
        self.buffer[start..end].copy_from_slice(&data[..end - start]);
    }
}

/// The end of data that are the next of their sequence and do not reach beyond it.
fn checked_end(header: &DataOut, offset: u32, data_sn: u32, length: u32, end_max: u32) -> Result<u32, u16> {
    let end = header.offset.checked_add(length);
    match end {
        Some(end) if header.offset == offset && header.data_sn == data_sn && end <= end_max => Ok(end),
        Some(_) | None => Err(code::INCORRECT_AMOUNT_OF_DATA),
    }
}

/// The next target transfer tag; never the one that means none.
pub(crate) fn take_tag(next_tag: &mut u32) -> u32 {
    let tag = *next_tag;
    *next_tag = match tag.wrapping_add(1) {
        NO_TAG => 0,
        next => next,
    };
    tag
}

/// Where a command stands.
pub(crate) enum State {
    /// The caller decides what becomes of it.
    Arrived,
    /// Its data come.
    Gathering(Box<Gathering>),
    /// The caller works on it.
    Running,
}

/// A command that has no answer yet.
pub(crate) struct Task {
    pub state: State,
    pub address: [u8; 8],
    pub is_read: bool,
    pub is_write: bool,
    pub is_final: bool,
    /// It has no command number, so the window does not count it.
    pub is_immediate: bool,
    /// Nobody wants its answer.
    pub is_aborted: bool,
    /// What the host announced, in one direction.
    pub expected_bytes: u32,
    /// Bytes that came with the command.
    pub immediate_bytes: u32,
}

/// What became of a task that is to be aborted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aborted {
    /// There is no such task.
    Unknown,
    /// It is gone: it had not begun.
    Gone,
    /// It runs to its end, and its answer will be thrown away.
    Running,
}

/// The tasks, by initiator task tag.
#[derive(Default)]
pub(crate) struct Tasks {
    by_tag: BTreeMap<u32, Task>,
    immediate: usize,
}

impl Tasks {
    pub fn insert(&mut self, tag: u32, task: Task) {
        self.immediate += usize::from(task.is_immediate);
        let before = self.by_tag.insert(tag, task);
        assert!(before.is_none(), "task {tag:#x} is there already");
    }

    pub fn remove(&mut self, tag: u32) -> Option<Task> {
        let task = self.by_tag.remove(&tag)?;
        self.immediate -= usize::from(task.is_immediate);
        Some(task)
    }

    pub fn get(&self, tag: u32) -> Option<&Task> {
        self.by_tag.get(&tag)
    }

    pub fn get_mut(&mut self, tag: u32) -> Option<&mut Task> {
        self.by_tag.get_mut(&tag)
    }

    pub fn len(&self) -> usize {
        self.by_tag.len()
    }

    pub fn immediate(&self) -> usize {
        self.immediate
    }

    /// Those that the window counts.
    pub fn numbered(&self) -> usize {
        self.by_tag.len() - self.immediate
    }

    /// Tags of the tasks at a unit, or of all.
    pub fn tags(&self, address: Option<[u8; 8]>) -> Vec<u32> {
        let is_meant = |task: &Task| address.is_none_or(|address| task.address == address);
        self.by_tag.iter().filter(|(_, task)| is_meant(task)).map(|(tag, _)| *tag).collect()
    }

    pub fn abort(&mut self, tag: u32) -> Aborted {
        let Some(task) = self.by_tag.get_mut(&tag) else { return Aborted::Unknown };
        match task.state {
            State::Running => {
                task.is_aborted = true;
                Aborted::Running
            }
            State::Arrived | State::Gathering(_) => {
                self.remove(tag);
                Aborted::Gone
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(tag: u32, data_sn: u32, offset: u32, is_final: bool) -> DataOut {
        DataOut { is_final, task_tag: 1, transfer_tag: tag, data_sn, offset }
    }

    #[test]
    fn what_was_not_sent_unasked_is_asked_for_in_bursts() {
        let mut next_tag = 10;
        let mut gathering = Gathering::new(Buf::on_heap(100), &[1; 10], true, 50);
        let asked = gathering.ask(40, 2, &mut next_tag);
        assert_eq!(
            asked,
            [
                Asked { transfer_tag: 10, r2t_sn: 0, offset: 10, length: 40 },
                Asked { transfer_tag: 11, r2t_sn: 1, offset: 50, length: 40 },
            ]
        );
        assert_eq!(gathering.take(&data(10, 0, 10, false), &[2; 20]), Ok(()));
        assert_eq!(gathering.take(&data(10, 1, 30, true), &[3; 20]), Ok(()));
        let asked = gathering.ask(40, 2, &mut next_tag);
        assert_eq!(asked, [Asked { transfer_tag: 12, r2t_sn: 2, offset: 90, length: 10 }]);
        assert_eq!(gathering.take(&data(11, 0, 50, true), &[4; 40]), Ok(()));
        assert!(!gathering.is_complete());
        assert_eq!(gathering.take(&data(12, 0, 90, true), &[5; 10]), Ok(()));
        assert!(gathering.is_complete());
        let expected = [&[1; 10][..], &[2; 20], &[3; 20], &[4; 40], &[5; 10]].concat();
        assert_eq!(&gathering.into_buffer()[..], expected);
    }

    #[test]
    fn unsolicited_data_go_on_where_immediate_data_ended() {
        let mut gathering = Gathering::new(Buf::on_heap(30), &[1; 10], false, 20);
        assert!(gathering.ask(40, 2, &mut 0).is_empty(), "nothing is asked while they come");
        assert_eq!(gathering.take(&data(NO_TAG, 0, 10, false), &[2; 5]), Ok(()));
        assert_eq!(gathering.take(&data(NO_TAG, 1, 15, true), &[3; 5]), Ok(()));
        assert_eq!(
            gathering.take(&data(NO_TAG, 2, 20, true), &[4; 5]),
            Err(code::UNEXPECTED_UNSOLICITED_DATA)
        );
        assert_eq!(gathering.ask(40, 2, &mut 0)[0].offset, 20);
    }

    #[test]
    fn data_out_of_order_or_beyond_their_sequence_fail_the_command() {
        let fresh = || {
            let mut gathering = Gathering::new(Buf::on_heap(20), &[], true, 20);
            assert_eq!(gathering.ask(20, 1, &mut 0).len(), 1);
            gathering
        };
        let wrong = [
            (data(0, 1, 0, true), 20),
            (data(0, 0, 10, true), 10),
            (data(0, 0, 0, true), 21),
            (data(0, 0, 0, true), 10),
            (data(0, 0, 0, false), 20),
            (data(7, 0, 0, true), 20),
            (data(0, 0, u32::MAX, true), 20),
        ];
        for (header, length) in wrong {
            assert_eq!(
                fresh().take(&header, &vec![0; length]),
                Err(code::INCORRECT_AMOUNT_OF_DATA),
                "{header:?}"
            );
        }
        assert_eq!(fresh().take(&data(0, 0, 0, true), &[0; 20]), Ok(()));
    }

    #[test]
    fn what_a_host_sends_beyond_its_command_is_let_go() {
        let mut gathering = Gathering::new(Buf::on_heap(4), &[1; 6], false, 100);
        assert_eq!(gathering.take(&data(NO_TAG, 0, 6, true), &[2; 6]), Ok(()));
        assert!(gathering.is_complete());
        assert_eq!(&gathering.into_buffer()[..], [1; 4]);
    }

    #[test]
    fn tags_never_are_the_one_that_means_none() {
        let mut next = NO_TAG - 1;
        assert_eq!([take_tag(&mut next), take_tag(&mut next)], [NO_TAG - 1, 0]);
    }
}
