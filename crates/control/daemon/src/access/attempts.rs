//! Logins that failed: whoever fails again and again waits longer each time.
//!
//! They are counted for each user and for each address. The waits of a user stay short, so that a stranger
//! cannot keep it out; those of an address grow long, since no person types for a quarter of an hour. A user
//! who logged in from an address before is counted there alone: strangers elsewhere, and others behind the
//! same address, do not keep it out. Each attempt counts as failed before its password is looked at: many at
//! once are no way around.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

/// So many failures cost nothing: people mistype.
const FREE: u32 = 4;
/// The longest wait of a user.
const USER_WAIT_MAX: Duration = Duration::from_secs(60);
/// The longest wait of an address.
const ADDRESS_WAIT_MAX: Duration = Duration::from_secs(15 * 60);
/// A failure is forgotten after so long without another one.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3600);
/// Where a user logged in is remembered for so long without another login.
const KNOWN_FOR: Duration = Duration::from_secs(30 * 24 * 3600);
/// Users, addresses and where users logged in that are remembered, each; the one whose last attempt is oldest
/// gives way.
const KEPT_MAX: usize = 4096;

/// The failed logins.
#[derive(Default)]
pub(crate) struct Attempts {
    users: BTreeMap<String, Failures>,
    addresses: BTreeMap<IpAddr, Failures>,
    /// Those that logged in, and from where.
    known: BTreeMap<(String, IpAddr), Failures>,
}

struct Failures {
    count: u32,
    last: Instant,
    /// The one before: an attempt that succeeds leaves no trace.
    before: Instant,
}

impl Failures {
    /// How long the next attempt must wait.
    fn wait(&self, longest: Duration, now: Instant) -> Duration {
        if self.count < FREE {
            return Duration::ZERO;
        }
        let doublings = (self.count - FREE).min(20);
        let pause = Duration::from_secs(1 << doublings).min(longest);
        (self.last + pause).saturating_duration_since(now)
    }

    fn undo(&mut self) {
        self.count = self.count.saturating_sub(1);
        self.last = self.before;
    }
}

impl Attempts {
    /// Somebody tries to log in; the error is how long to wait first. Counts as a failure until
    /// [`Attempts::succeeded`].
    pub(crate) fn begin(&mut self, user: &str, from: Option<IpAddr>, now: Instant) -> Result<(), Duration> {
        forget_old(&mut self.users, FORGOTTEN_AFTER, now);
        forget_old(&mut self.addresses, FORGOTTEN_AFTER, now);
        forget_old(&mut self.known, KNOWN_FOR, now);
        let pair = from.map(|address| (user.to_string(), address.to_canonical()));
        if let Some(pair) = pair.filter(|pair| self.known.contains_key(pair)) {
            let wait = self.known[&pair].wait(USER_WAIT_MAX, now);
            if !wait.is_zero() {
                return Err(wait);
            }
            count(&mut self.known, pair, now);
            return Ok(());
        }
        let address = from.map(network);
        let of_user = self.users.get(user).map(|failures| failures.wait(USER_WAIT_MAX, now));
        let of_address = address.and_then(|address| self.addresses.get(&address));
        let of_address = of_address.map(|failures| failures.wait(ADDRESS_WAIT_MAX, now));
        let wait = of_user.max(of_address).unwrap_or_default();
        if !wait.is_zero() {
            return Err(wait);
        }
        count(&mut self.users, user.to_string(), now);
        if let Some(address) = address {
            count(&mut self.addresses, address, now);
        }
        Ok(())
    }

    /// The attempt was no failure. What the address failed before stays: who has one account may not try
    /// others for nothing.
    pub(crate) fn succeeded(&mut self, user: &str, from: Option<IpAddr>, now: Instant) {
        self.undo(user, from);
        self.users.remove(user);
        if let Some(address) = from {
            let pair = (user.to_string(), address.to_canonical());
            *entry(&mut self.known, pair, now) = Failures { count: 0, last: now, before: now };
        }
    }

    /// The attempt was none: nobody looked at its password.
    pub(crate) fn undo(&mut self, user: &str, from: Option<IpAddr>) {
        let pair = from.map(|address| (user.to_string(), address.to_canonical()));
        // One that began before another of the pair succeeded was counted with its address.
        let of_pair = pair.and_then(|pair| self.known.get_mut(&pair));
        if let Some(failures) = of_pair.filter(|failures| failures.count > 0) {
            return failures.undo();
        }
        let of_address = from.and_then(|address| self.addresses.get_mut(&network(address)));
        self.users.get_mut(user).into_iter().chain(of_address).for_each(Failures::undo);
    }
}

/// What one person may well have all of: of IPv6 the first 64 bits count, and every user of this machine has
/// all its loopback addresses.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        address if address.is_loopback() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
    }
}

fn forget_old<K: Ord>(table: &mut BTreeMap<K, Failures>, after: Duration, now: Instant) {
    table.retain(|_, failures| now.saturating_duration_since(failures.last) < after);
}

/// What is known of one; where the table is full the oldest gives way to it.
fn entry<K: Ord + Clone>(table: &mut BTreeMap<K, Failures>, key: K, now: Instant) -> &mut Failures {
    if table.len() >= KEPT_MAX && !table.contains_key(&key) {
        let oldest = table.iter().min_by_key(|(_, failures)| failures.last).map(|(key, _)| key.clone());
        if let Some(oldest) = oldest {
            table.remove(&oldest);
        }
    }
    table.entry(key).or_insert(Failures { count: 0, last: now, before: now })
}

fn count<K: Ord + Clone>(table: &mut BTreeMap<K, Failures>, key: K, now: Instant) {
    let failures = entry(table, key, now);
    if now.saturating_duration_since(failures.last) >= FORGOTTEN_AFTER {
        failures.count = 0;
    }
    failures.count = failures.count.saturating_add(1);
    failures.before = std::mem::replace(&mut failures.last, now);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn from(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn each_failure_behind_the_fourth_doubles_the_wait() {
        let mut attempts = Attempts::default();
        let mut now = Instant::now();
        let here = from("192.0.2.1");
        for _ in 0..FREE {
            attempts.begin("ada", here, now).unwrap();
        }
        for wait in [1, 2, 4, 8] {
            let wait = Duration::from_secs(wait);
            assert_eq!(attempts.begin("ada", here, now), Err(wait));
            now += wait;
            attempts.begin("ada", here, now).unwrap();
        }
        // From another address the user waits no longer than a minute, however often it failed.
        for number in 0..40u8 {
            now += USER_WAIT_MAX;
            attempts.begin("ada", from(&format!("198.51.100.{number}")), now).unwrap();
        }
        assert!(attempts.begin("ada", from("203.0.113.1"), now).unwrap_err() <= USER_WAIT_MAX);
        now += FORGOTTEN_AFTER;
        attempts.begin("ada", here, now).unwrap();
    }

    #[test]
    fn an_address_waits_whichever_users_it_tries() {
        let mut attempts = Attempts::default();
        let mut now = Instant::now();
        for number in 0..30 {
            let user = format!("user{number}");
            while let Err(wait) = attempts.begin(&user, from("2001:db8::1"), now) {
                assert!(wait <= ADDRESS_WAIT_MAX);
                now += wait;
            }
        }
        // The same network, another host in it.
        let wait = attempts.begin("ada", from("2001:db8::2"), now).unwrap_err();
        assert!(wait > USER_WAIT_MAX, "{wait:?}");
        attempts.begin("ada", from("2001:db8:0:1::1"), now).unwrap();
    }

    #[test]
    fn a_success_clears_its_user_and_not_the_address() {
        let mut attempts = Attempts::default();
        let now = Instant::now();
        let here = from("192.0.2.1");
        for _ in 0..FREE {
            attempts.begin("ada", here, now).unwrap();
        }
        assert!(attempts.begin("own", here, now).is_err());
        let later = now + Duration::from_secs(1);
        attempts.begin("own", here, later).unwrap();
        attempts.succeeded("own", here, later);
        assert!(!attempts.users.contains_key("own"));
        attempts.begin("bob", here, later).unwrap();
        assert!(attempts.begin("bob", here, later).is_err(), "a login made up for failures");
    }

    /// The harm: a stranger behind the same address, or with many of his own, keeps a person out.
    #[test]
    fn who_logged_in_from_there_before_waits_for_its_own_failures_alone() {
        let mut attempts = Attempts::default();
        let mut now = Instant::now();
        let here = from("192.0.2.1");
        attempts.begin("ada", here, now).unwrap();
        attempts.succeeded("ada", here, now);
        for number in 0..60 {
            // One after the other, and each as soon as it may.
            while let Err(wait) = attempts.begin("bob", here, now) {
                now += wait;
            }
            let _ = attempts.begin("ada", from(&format!("198.51.100.{number}")), now);
        }
        assert!(attempts.begin("eve", here, now).is_err());
        assert!(attempts.begin("ada", from("203.0.113.1"), now).is_err());
        for _ in 0..FREE {
            attempts.begin("ada", here, now).unwrap();
        }
        assert_eq!(attempts.begin("ada", here, now), Err(Duration::from_secs(1)));
    }

    /// The harm: each login of others begins the wait of their address anew.
    #[test]
    fn a_success_leaves_the_wait_of_its_address_as_it_was() {
        let mut attempts = Attempts::default();
        let mut now = Instant::now();
        let here = from("192.0.2.1");
        for _ in 0..FREE + 5 {
            while let Err(wait) = attempts.begin("bob", here, now) {
                now += wait;
            }
        }
        let network = network(here.unwrap());
        let (count, last) = (attempts.addresses[&network].count, attempts.addresses[&network].last);
        now += Duration::from_secs(600);
        attempts.begin("ada", here, now).unwrap();
        attempts.succeeded("ada", here, now);
        assert_eq!((attempts.addresses[&network].count, attempts.addresses[&network].last), (count, last));
    }

    /// The harm: any user of the machine has sixteen million addresses on loopback.
    #[test]
    fn all_of_loopback_is_one_address() {
        let mut attempts = Attempts::default();
        let now = Instant::now();
        for number in 1..=FREE {
            attempts.begin(&format!("user{number}"), from(&format!("127.0.0.{number}")), now).unwrap();
        }
        assert!(attempts.begin("ada", from("127.9.9.9"), now).is_err());
        assert!(attempts.begin("ada", from("::1"), now).is_err());
    }

    #[test]
    fn the_tables_are_bounded() {
        let mut attempts = Attempts::default();
        let now = Instant::now();
        for number in 0..KEPT_MAX as u32 + 100 {
            let address = IpAddr::V4(number.into());
            attempts
                .begin(&format!("user{number}"), Some(address), now + Duration::from_millis(number.into()))
                .unwrap();
        }
        assert_eq!((attempts.users.len(), attempts.addresses.len()), (KEPT_MAX, KEPT_MAX));
        assert!(!attempts.users.contains_key("user0") && attempts.users.contains_key("user4195"));
    }
}
