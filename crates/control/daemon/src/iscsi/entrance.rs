//! An address at which hosts come in: who may, and with which proof.

use std::net::SocketAddr;
use std::rc::Rc;

use ashlar_iscsi::{Admission, Authentication, Directory};

use super::records::{HostRecord, credential};
use crate::array::Shard;
use crate::service::ClosedPools;

/// One address of the door.
pub(crate) struct Entrance {
    pub(crate) shard: Rc<Shard>,
    pub(crate) address: SocketAddr,
    pub(crate) closed: ClosedPools,
}

impl Directory for Entrance {
    fn admit(&self, initiator: &str, target: Option<&str>) -> Admission {
        let exporter = &self.shard.servers.exporter;
        let pool = match target.map(|name| exporter.pool_of(name)) {
            None => None,
            Some(Some(pool)) => Some(pool),
            Some(None) if self.closed.remark().is_some() => return Admission::Unavailable,
            Some(None) => return Admission::NotFound,
        };
        let known = exporter.hosts_of(initiator, pool.as_deref());
        admission(&known, self.address.ip().is_loopback())
    }

    fn targets(&self, initiator: &str) -> Vec<(String, Vec<String>)> {
        let exporter = &self.shard.servers.exporter;
        // Whoever came from elsewhere reaches what is off loopback, and nothing else.
        let addresses: Vec<String> = match self.address.ip().is_loopback() {
            true => vec![self.address.to_string()],
            false => exporter
                .addresses()
                .into_iter()
                .filter(|address| !address.ip().is_loopback())
                .map(|address| address.to_string())
                .collect(),
        };
        exporter.targets_for(initiator).into_iter().map(|name| (name, addresses.clone())).collect()
    }
}

/// What becomes of an initiator that these records are about: of one pool, or of all where it asks which
/// targets there are. Off loopback nobody comes in without a proof.
fn admission(known: &[HostRecord], is_loopback: bool) -> Admission {
    let incoming: Vec<_> =
        known.iter().filter_map(|host| host.chap.as_ref()).filter_map(credential).collect();
    let wants_proof = known.iter().any(|host| host.chap.is_some());
    match (wants_proof, is_loopback) {
        (false, true) => Admission::Allowed(Authentication::None),
        (false, false) => Admission::Forbidden,
        (true, _) => {
            let outgoing = known.iter().find_map(|host| host.mutual_chap.as_ref()).and_then(credential);
            Admission::Allowed(Authentication::Chap { incoming, outgoing })
        }
    }
}

#[cfg(test)]
mod tests {
    use ashlar_api::ChapLogin;

    use super::*;

    fn host(secret: Option<&str>) -> HostRecord {
        let login = |secret: &str| ChapLogin { user: "u".to_string(), secret: secret.to_string() };
        HostRecord {
            name: "h".to_string(),
            initiator: "iqn.x:h".to_string(),
            chap: secret.map(login),
            mutual_chap: secret.map(|_| login("of the array itself")),
            created_unix_seconds: 0,
        }
    }

    #[test]
    fn off_loopback_only_hosts_with_a_secret_come_in_and_with_one_they_prove_it_everywhere() {
        let open = Admission::Allowed(Authentication::None);
        assert_eq!(admission(&[], true), open);
        assert_eq!(admission(&[host(None)], true), open);
        assert_eq!(admission(&[], false), Admission::Forbidden);
        assert_eq!(admission(&[host(None)], false), Admission::Forbidden);
        for is_loopback in [true, false] {
            for known in
                [&[host(Some("of the host itself"))][..], &[host(None), host(Some("of the host itself"))]]
            {
                let Admission::Allowed(Authentication::Chap { incoming, outgoing }) =
                    admission(known, is_loopback)
                else {
                    panic!("let in without a proof");
                };
                assert_eq!((incoming.len(), outgoing.is_some()), (1, true));
            }
        }
    }

    /// A record that a later program wrote with a secret that this one refuses: nobody proves that.
    #[test]
    fn a_secret_that_cannot_be_used_lets_nobody_in() {
        let Admission::Allowed(Authentication::Chap { incoming, .. }) =
            admission(&[host(Some("short"))], true)
        else {
            panic!("let in without a proof");
        };
        assert!(incoming.is_empty());
    }
}
