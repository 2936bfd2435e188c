//! How a browser is let in: a ticket that opens the console once, and the session it is taken for.
//!
//! A session is shown as a bearer token, not as a cookie: every port of this machine shares its cookies, and
//! a page of another program would be sent ours.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::places::Caller;
use crate::token::Token;

/// How long a ticket opens the console.
pub(crate) const TICKET_LIFE: Duration = Duration::from_secs(60);
/// How long a session lasts. Arbitrary: a working day.
pub(crate) const SESSION_LIFE: Duration = Duration::from_secs(12 * 3600);
/// So many of each are kept; the oldest gives way. Arbitrary.
const KEPT_MAX: usize = 64;

/// What is open now.
#[derive(Default)]
pub(crate) struct Sessions {
    tickets: Mutex<Vec<Pass>>,
    sessions: Mutex<Vec<Pass>>,
}

struct Pass {
    token: Token,
    caller: Caller,
    end: Instant,
}

impl Sessions {
    /// A ticket for whoever asks: its session may what this caller may.
    pub(crate) fn ticket(&self, caller: Caller) -> Result<String> {
        issue(&self.tickets, caller, TICKET_LIFE)
    }

    /// Takes a ticket, which is used up then, for the token of a session.
    pub(crate) fn open(&self, ticket: &str) -> Result<String> {
        let caller = {
            let mut tickets = self.tickets.lock().expect("no holder of this lock panics");
            let found = tickets.iter().position(|pass| pass.is(ticket));
            found.map(|index| tickets.remove(index).caller)
        };
        let caller = caller.ok_or_else(|| {
            Error::new(
                ashlar_api::ErrorKind::Unauthorized,
                "the ticket was used before, is older than a minute, or was never given",
                "run `ashlar console` again and open the address it prints",
            )
        })?;
        issue(&self.sessions, caller, SESSION_LIFE)
    }

    /// Who shows this token of a session.
    pub(crate) fn caller(&self, shown: &str) -> Option<Caller> {
        let sessions = self.sessions.lock().expect("no holder of this lock panics");
        sessions.iter().find(|pass| pass.is(shown)).map(|pass| pass.caller)
    }
}

impl Pass {
    fn is(&self, shown: &str) -> bool {
        Instant::now() < self.end && self.token.is(shown)
    }
}

fn issue(passes: &Mutex<Vec<Pass>>, caller: Caller, life: Duration) -> Result<String> {
    let (token, text) = Token::by_chance()?;
    let now = Instant::now();
    let mut passes = passes.lock().expect("no holder of this lock panics");
    passes.retain(|pass| now < pass.end);
    if passes.len() == KEPT_MAX {
        passes.remove(0);
    }
    passes.push(Pass { token, caller, end: now + life });
    Ok(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_ticket_opens_once_with_the_rights_of_who_asked() {
        let sessions = Sessions::default();
        for caller in [Caller::Owner, Caller::Guest] {
            let ticket = sessions.ticket(caller).unwrap();
            assert_eq!(sessions.caller(&ticket), None, "a ticket is no session");
            let token = sessions.open(&ticket).unwrap();
            assert_eq!(sessions.caller(&token), Some(caller));
            assert!(sessions.open(&ticket).is_err() && sessions.open(&token).is_err());
        }
        assert!(sessions.open("").is_err() && sessions.caller("").is_none());
    }

    #[test]
    fn the_oldest_gives_way_and_what_is_too_old_opens_nothing() {
        let sessions = Sessions::default();
        let first = sessions.ticket(Caller::Owner).unwrap();
        let second = sessions.ticket(Caller::Owner).unwrap();
        for _ in 1..KEPT_MAX {
            sessions.ticket(Caller::Owner).unwrap();
        }
        assert!(sessions.open(&first).is_err() && sessions.open(&second).is_ok());
        let last = sessions.ticket(Caller::Owner).unwrap();
        sessions.tickets.lock().unwrap().last_mut().unwrap().end = Instant::now();
        assert!(sessions.open(&last).is_err());
    }
}
