//! How a browser is let in: a ticket that opens the console once, or a login; and the session that comes of
//! it.
//!
//! A session is shown as a bearer token, not as a cookie: every port of this machine shares its cookies, and
//! a page of another program would be sent ours.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::asker::Who;
use crate::error::{Error, Result};
use crate::token::Token;

/// How long a ticket opens the console.
pub(crate) const TICKET_LIFE: Duration = Duration::from_secs(60);
/// How long a session lasts. Arbitrary: a working day.
pub(crate) const SESSION_LIFE: Duration = Duration::from_secs(12 * 3600);
/// So many of one are kept, and so many of all; of each the oldest gives way. Arbitrary.
const KEPT_MAX: usize = 64;
const KEPT_OF_ALL_MAX: usize = 4096;

/// What is open now.
#[derive(Default)]
pub(crate) struct Sessions {
    tickets: Mutex<Passes>,
    sessions: Mutex<Passes>,
}

#[derive(Default)]
struct Passes {
    last: u64,
    all: Vec<Pass>,
}

struct Pass {
    number: u64,
    token: Token,
    who: Who,
    end: Instant,
}

impl Sessions {
    /// A ticket for whoever asks: its session may what that one may.
    pub(crate) fn ticket(&self, who: Who) -> Result<String> {
        issue(&self.tickets, who, TICKET_LIFE)
    }

    /// Takes a ticket, which is used up then, for the token of a session. Whoever it was given to must still
    /// be let in.
    pub(crate) fn open(&self, ticket: &str, is_let_in: impl Fn(&Who) -> bool) -> Result<String> {
        let who = {
            let mut tickets = lock(&self.tickets);
            let found = tickets.all.iter().position(|pass| pass.is(ticket));
            found.map(|index| tickets.all.remove(index).who)
        };
        let who = who.filter(is_let_in).ok_or_else(|| {
            Error::new(
                ashlar_api::ErrorKind::Unauthorized,
                "the ticket was used before, is older than a minute, was never given, or is of a user or token that is gone",
                "run `ashlar console` again and open the address it prints",
            )
        })?;
        issue(&self.sessions, who, SESSION_LIFE)
    }

    /// The token of a session of somebody who has just logged in.
    pub(crate) fn log_in(&self, who: Who) -> Result<String> {
        issue(&self.sessions, who, SESSION_LIFE)
    }

    /// Whose session it is whose token somebody shows, and its number.
    pub(crate) fn who(&self, shown: &str) -> Option<(u64, Who)> {
        let sessions = lock(&self.sessions);
        sessions.all.iter().find(|pass| pass.is(shown)).map(|pass| (pass.number, pass.who.clone()))
    }

    /// Whether a session goes on.
    pub(crate) fn is_open(&self, number: u64) -> bool {
        let now = Instant::now();
        lock(&self.sessions).all.iter().any(|pass| pass.number == number && now < pass.end)
    }

    /// How many sessions somebody has.
    pub(crate) fn count(&self, who: &Who) -> u64 {
        let now = Instant::now();
        lock(&self.sessions).all.iter().filter(|pass| pass.who == *who && now < pass.end).count() as u64
    }

    /// Ends a session.
    pub(crate) fn end(&self, number: u64) {
        lock(&self.sessions).all.retain(|pass| pass.number != number);
    }
}

impl Pass {
    fn is(&self, shown: &str) -> bool {
        Instant::now() < self.end && self.token.is(shown)
    }
}

fn lock(passes: &Mutex<Passes>) -> MutexGuard<'_, Passes> {
    passes.lock().expect("no holder of this lock panics")
}

fn issue(passes: &Mutex<Passes>, who: Who, life: Duration) -> Result<String> {
    let (token, text) = Token::by_chance()?;
    let now = Instant::now();
    let mut passes = lock(passes);
    passes.all.retain(|pass| now < pass.end);
    // Nobody pushes out another one's but where there are very many of them.
    if passes.all.iter().filter(|pass| pass.who == who).count() >= KEPT_MAX {
        let oldest = passes.all.iter().position(|pass| pass.who == who);
        oldest.map(|index| passes.all.remove(index));
    }
    if passes.all.len() >= KEPT_OF_ALL_MAX {
        passes.all.remove(0);
    }
    passes.last += 1;
    let number = passes.last;
    passes.all.push(Pass { number, token, who, end: now + life });
    Ok(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn user(name: &str) -> Who {
        Who::User { name: name.to_string(), stamp: 1 }
    }

    #[test]
    fn a_ticket_opens_once_with_the_rights_of_who_asked() {
        let sessions = Sessions::default();
        for who in [Who::File, user("ada")] {
            let ticket = sessions.ticket(who.clone()).unwrap();
            assert_eq!(sessions.who(&ticket), None, "a ticket is no session");
            let token = sessions.open(&ticket, |_| true).unwrap();
            assert_eq!(sessions.who(&token).unwrap().1, who);
            assert!(sessions.open(&ticket, |_| true).is_err() && sessions.open(&token, |_| true).is_err());
        }
        let ticket = sessions.ticket(user("ada")).unwrap();
        assert!(sessions.open(&ticket, |_| false).is_err() && sessions.open(&ticket, |_| true).is_err());
        assert!(sessions.open("", |_| true).is_err() && sessions.who("").is_none());
    }

    #[test]
    fn the_oldest_of_ones_own_gives_way_and_what_is_too_old_opens_nothing() {
        let sessions = Sessions::default();
        let others = sessions.ticket(user("bob")).unwrap();
        let first = sessions.ticket(user("ada")).unwrap();
        let second = sessions.ticket(user("ada")).unwrap();
        for _ in 1..KEPT_MAX {
            sessions.ticket(user("ada")).unwrap();
        }
        assert!(sessions.open(&first, |_| true).is_err() && sessions.open(&second, |_| true).is_ok());
        assert!(sessions.open(&others, |_| true).is_ok(), "another one's gave way");
        let last = sessions.ticket(user("ada")).unwrap();
        sessions.tickets.lock().unwrap().all.last_mut().unwrap().end = Instant::now();
        assert!(sessions.open(&last, |_| true).is_err());
    }

    #[test]
    fn who_logs_out_has_no_session_any_more() {
        let sessions = Sessions::default();
        let (one, other) = (sessions.log_in(user("ada")).unwrap(), sessions.log_in(user("ada")).unwrap());
        assert_eq!(sessions.count(&user("ada")), 2);
        let (number, _) = sessions.who(&one).unwrap();
        assert!(sessions.is_open(number));
        sessions.end(number);
        assert!(!sessions.is_open(number) && sessions.who(&one).is_none() && sessions.who(&other).is_some());
        assert_eq!(sessions.count(&user("ada")), 1);
    }
}
