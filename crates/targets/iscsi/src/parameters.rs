//! Operational parameters of a session and how they are agreed on (RFC 7143 section 13).

use crate::text::{boolean, number};
use crate::wire::{DATA_BYTES_MAX_DEFAULT, Digests};

/// Numbers of bytes in these keys have 24 bits, and 512 is the least (13.12 to 13.14).
const BYTES_MIN: u32 = 512;
const BYTES_MAX: u32 = (1 << 24) - 1;

/// What this side offers; an operator may change it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    /// The largest data segment that is taken. Default 256 KiB: larger ones only hold the receive buffer up.
    pub data_bytes_max: u32,
    /// The longest sequence of data. Default 1 MiB.
    pub burst_bytes_max: u32,
    /// Bytes that a host may send without being asked. Default 256 KiB: a host's usual largest write arrives
    /// in one go.
    pub first_burst_bytes_max: u32,
    /// Transfers that a command may have asked for at the same time. Default 4.
    pub transfers_max: u32,
    /// Digests are agreed to when a host wants them. Default yes.
    pub has_digests: bool,
}

impl Default for Offer {
    fn default() -> Offer {
        Offer {
            data_bytes_max: 256 << 10,
            burst_bytes_max: 1 << 20,
            first_burst_bytes_max: 256 << 10,
            transfers_max: 4,
            has_digests: true,
        }
    }
}

/// What holds in a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameters {
    pub digests: Digests,
    /// The host sends data only when asked, beside immediate data.
    pub is_initial_r2t: bool,
    /// A command may carry data.
    pub has_immediate_data: bool,
    /// The largest data segment that the host takes.
    pub initiator_data_bytes_max: u32,
    /// The largest data segment that the host was told it may send.
    pub target_data_bytes_max: u32,
    pub burst_bytes_max: u32,
    pub first_burst_bytes_max: u32,
    pub transfers_max: u32,
}

impl Default for Parameters {
    /// What holds when nobody says anything.
    fn default() -> Parameters {
        Parameters {
            digests: Digests::default(),
            is_initial_r2t: true,
            has_immediate_data: true,
            initiator_data_bytes_max: DATA_BYTES_MAX_DEFAULT,
            target_data_bytes_max: DATA_BYTES_MAX_DEFAULT,
            burst_bytes_max: 262_144,
            first_burst_bytes_max: 65_536,
            transfers_max: 1,
        }
    }
}

/// What is said to a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Reply {
    /// The value that holds.
    Value(String),
    /// The key is a statement: nothing is said.
    Nothing,
    /// No such key here.
    NotUnderstood,
    /// The value cannot be.
    Reject,
    /// The key means nothing in this session.
    Irrelevant,
}

impl Reply {
    pub fn text(&self) -> Option<&str> {
        match self {
            Reply::Value(value) => Some(value),
            Reply::Nothing => None,
            Reply::NotUnderstood => Some("NotUnderstood"),
            Reply::Reject => Some("Reject"),
            Reply::Irrelevant => Some("Irrelevant"),
        }
    }
}

fn yes_or_no(value: bool) -> Reply {
    Reply::Value(if value { "Yes" } else { "No" }.to_string())
}

impl Parameters {
    /// Takes in what the host says of a key. Keys that belong to login itself are not for here.
    pub(crate) fn negotiate(&mut self, offer: &Offer, is_discovery: bool, key: &str, value: &str) -> Reply {
        // What only sessions with commands have (section 13, "Irrelevant when: SessionType=Discovery").
        let is_of_commands = matches!(
            key,
            "InitialR2T"
                | "ImmediateData"
                | "MaxBurstLength"
                | "FirstBurstLength"
                | "MaxOutstandingR2T"
                | "DataPDUInOrder"
                | "DataSequenceInOrder"
                | "MaxConnections"
        );
        if is_discovery && is_of_commands {
            return Reply::Irrelevant;
        }
        match key {
            "HeaderDigest" => digest(value, offer, &mut self.digests.header),
            "DataDigest" => digest(value, offer, &mut self.digests.data),
            "InitialR2T" | "ImmediateData" | "DataPDUInOrder" | "DataSequenceInOrder" => {
                self.negotiate_boolean(key, value)
            }
            "MaxRecvDataSegmentLength" => match bytes(value) {
                Some(value) => {
                    self.initiator_data_bytes_max = value;
                    Reply::Nothing
                }
                None => Reply::Reject,
            },
            "MaxBurstLength" => least(bytes(value), offer.burst_bytes_max, &mut self.burst_bytes_max),
            "FirstBurstLength" => {
                least(bytes(value), offer.first_burst_bytes_max, &mut self.first_burst_bytes_max)
            }
            "MaxOutstandingR2T" => {
                let asked = number(value).filter(|count| (1..=65_535).contains(count));
                least(asked, offer.transfers_max, &mut self.transfers_max)
            }
            "MaxConnections" => in_range(value, 1..=65_535, |_| 1),
            "ErrorRecoveryLevel" => in_range(value, 0..=2, |_| 0),
            // Nothing is kept for a connection that is lost, so there is nothing to wait for but what the
            // host wants to wait.
            "DefaultTime2Wait" => in_range(value, 0..=3600, |asked| asked),
            "DefaultTime2Retain" => in_range(value, 0..=3600, |_| 0),
            // RFC 7143 13.23: the clearing effects of RFC 3720 are what is kept here.
            "TaskReporting" => {
                let is_offered = value.split(',').any(|name| name == "RFC3720");
                if is_offered { Reply::Value("RFC3720".to_string()) } else { Reply::Reject }
            }
            "iSCSIProtocolLevel" => in_range(value, 0..=31, |asked| asked.min(1)),
            // Markers are no more (RFC 7143 13.25).
            "IFMarker" | "OFMarker" => yes_or_no(false),
            "IFMarkInt" | "OFMarkInt" => Reply::Irrelevant,
            _ => Reply::NotUnderstood,
        }
    }

    fn negotiate_boolean(&mut self, key: &str, value: &str) -> Reply {
        let Some(asked) = boolean(value) else { return Reply::Reject };
        match key {
            // The result is Yes if either side says so; this side needs nothing asked for.
            "InitialR2T" => {
                self.is_initial_r2t = asked;
                yes_or_no(asked)
            }
            // The result is Yes if both say so.
            "ImmediateData" => {
                self.has_immediate_data = asked;
                yes_or_no(asked)
            }
            // Data come in order: the result is Yes if either side says so, and this one does.
            _ => yes_or_no(true),
        }
    }

    /// Brings together what was agreed on apart: the first burst is part of a burst (13.14).
    pub(crate) fn settle(&mut self) {
        self.first_burst_bytes_max = self.first_burst_bytes_max.min(self.burst_bytes_max);
    }
}

fn bytes(value: &str) -> Option<u32> {
    number(value).filter(|bytes| (BYTES_MIN..=BYTES_MAX).contains(bytes))
}

/// The smaller of both.
fn least(asked: Option<u32>, offered: u32, holds: &mut u32) -> Reply {
    let Some(asked) = asked else { return Reply::Reject };
    *holds = asked.min(offered);
    Reply::Value(holds.to_string())
}

fn in_range(value: &str, range: std::ops::RangeInclusive<u32>, answer: impl Fn(u32) -> u32) -> Reply {
    match number(value).filter(|asked| range.contains(asked)) {
        Some(asked) => Reply::Value(answer(asked).to_string()),
        None => Reply::Reject,
    }
}

/// The first that both have, in the order of who asks (6.2.1).
fn digest(value: &str, offer: &Offer, holds: &mut bool) -> Reply {
    for name in value.split(',') {
        match name {
            "CRC32C" if offer.has_digests => *holds = true,
            "None" => *holds = false,
            _ => continue,
        }
        return Reply::Value(name.to_string());
    }
    Reply::Reject
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(pairs: &[(&str, &str)]) -> (Parameters, Vec<Option<String>>) {
        let mut parameters = Parameters::default();
        let offer = Offer::default();
        let replies = pairs
            .iter()
            .map(|(key, value)| parameters.negotiate(&offer, false, key, value).text().map(str::to_string))
            .collect();
        parameters.settle();
        (parameters, replies)
    }

    #[test]
    fn numbers_are_the_smaller_and_statements_are_not_answered() {
        let (parameters, replies) = answers(&[
            ("MaxBurstLength", "262144"),
            ("FirstBurstLength", "16777215"),
            ("MaxOutstandingR2T", "1"),
            ("MaxRecvDataSegmentLength", "0x10000"),
            ("MaxConnections", "8"),
            ("ErrorRecoveryLevel", "2"),
        ]);
        let said: Vec<&str> = replies.iter().map(|reply| reply.as_deref().unwrap_or("-")).collect();
        assert_eq!(said, ["262144", "262144", "1", "-", "1", "0"]);
        assert_eq!((parameters.burst_bytes_max, parameters.initiator_data_bytes_max), (262_144, 65_536));
    }

    #[test]
    fn the_first_burst_is_never_longer_than_a_burst() {
        let (parameters, _) = answers(&[("FirstBurstLength", "65536"), ("MaxBurstLength", "4096")]);
        assert_eq!(parameters.first_burst_bytes_max, 4096);
    }

    #[test]
    fn digests_go_by_the_order_of_who_asks() {
        let (parameters, replies) =
            answers(&[("HeaderDigest", "None,CRC32C"), ("DataDigest", "X,CRC32C,None")]);
        assert_eq!(replies, [Some("None".to_string()), Some("CRC32C".to_string())]);
        assert_eq!(parameters.digests, Digests { header: false, data: true });
        assert_eq!(answers(&[("HeaderDigest", "SHA9")]).1, [Some("Reject".to_string())]);
    }

    #[test]
    fn values_that_cannot_be_are_rejected_and_keys_unknown_not_understood() {
        let rejected = [
            ("MaxBurstLength", "511"),
            ("MaxBurstLength", "16777216"),
            ("InitialR2T", "yes"),
            ("MaxOutstandingR2T", "0"),
            ("ErrorRecoveryLevel", "3"),
            ("MaxRecvDataSegmentLength", ""),
        ];
        for (key, value) in rejected {
            let (parameters, replies) = answers(&[(key, value)]);
            assert_eq!(replies, [Some("Reject".to_string())], "{key}={value}");
            assert_eq!(parameters, Parameters::default(), "{key}={value} changed nothing");
        }
        assert_eq!(answers(&[("X-org.example", "1")]).1, [Some("NotUnderstood".to_string())]);
    }

    #[test]
    fn a_discovery_session_has_no_bursts() {
        let reply = Parameters::default().negotiate(&Offer::default(), true, "MaxBurstLength", "512");
        assert_eq!(reply, Reply::Irrelevant);
    }
}
