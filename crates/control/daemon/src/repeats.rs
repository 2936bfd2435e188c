//! Requests that may come twice: who lost the answer to a create sends it again with the same key, and gets
//! the same answer instead of a second object.
//!
//! Answers of successes are kept for a day, in memory alone, for each kind of caller within bounds of its
//! own: a guest cannot make an owner's keys be forgotten. A request that was refused changed nothing: its key
//! is free again.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};

use crate::places::Caller;

/// How long an answer is kept.
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// Keys of one caller at most. Arbitrary: a create every minute and a half.
const KEYS_MAX: usize = 1_000;
/// Bytes of answers of one caller at most. Arbitrary: answers have a few thousand.
const BYTES_MAX: usize = 8 << 20;

/// An answer as it went out.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// What a request asks for, in few bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Content(u64, usize);

impl Content {
    /// Of a request with this address and body.
    pub(crate) fn of(address: &str, body: &[u8]) -> Content {
        let mut hasher = DefaultHasher::new();
        (address, body).hash(&mut hasher);
        Content(hasher.finish(), body.len())
    }
}

/// What is known of a key.
pub(crate) enum Found {
    /// Nothing: the request is to be carried out.
    New(Turn),
    /// The same request was answered so.
    Answered(Answer),
    /// The same request is under way.
    UnderWay,
    /// It belongs to another request.
    Other,
    /// So many requests with keys are under way that none can be kept.
    Full,
}

/// The keys of all callers.
#[derive(Clone, Default)]
pub(crate) struct Repeats(Arc<Mutex<Callers>>);

#[derive(Default)]
struct Callers {
    owner: Keys,
    guest: Keys,
}

impl Callers {
    fn of(&mut self, caller: Caller) -> &mut Keys {
        match caller {
            Caller::Owner => &mut self.owner,
            Caller::Guest => &mut self.guest,
        }
    }
}

/// The keys of one kind of caller.
#[derive(Default)]
struct Keys {
    known: BTreeMap<String, Known>,
    /// Those that were answered, the oldest first.
    answered: VecDeque<(String, Instant)>,
    bytes: usize,
}

struct Known {
    content: Content,
    /// `None` while it is under way.
    answer: Option<Answer>,
}

/// The right to carry out a request, once. Dropped without an answer the key is free again.
pub(crate) struct Turn {
    repeats: Repeats,
    caller: Caller,
    key: String,
    is_answered: bool,
}

impl Repeats {
    fn callers(&self) -> MutexGuard<'_, Callers> {
        self.0.lock().expect("no holder of this lock panics")
    }

    /// What is to be done with a request.
    pub(crate) fn find(&self, caller: Caller, key: &str, content: Content) -> Found {
        self.find_at(caller, key, content, Instant::now())
    }

    fn find_at(&self, caller: Caller, key: &str, content: Content, now: Instant) -> Found {
        let mut callers = self.callers();
        let keys = callers.of(caller);
        keys.forget_old(now);
        match keys.known.get(key) {
            Some(known) if known.content != content => return Found::Other,
            Some(Known { answer: Some(answer), .. }) => return Found::Answered(answer.clone()),
            Some(_) => return Found::UnderWay,
            None => {}
        }
        if keys.known.len() >= KEYS_MAX && !keys.forget_oldest() {
            return Found::Full;
        }
        keys.known.insert(key.to_string(), Known { content, answer: None });
        Found::New(Turn { repeats: self.clone(), caller, key: key.to_string(), is_answered: false })
    }
}

impl Keys {
    fn forget_old(&mut self, now: Instant) {
        while self.answered.front().is_some_and(|(_, at)| now.duration_since(*at) >= KEPT) {
            self.forget_oldest();
        }
    }

    /// False where nothing is answered.
    fn forget_oldest(&mut self) -> bool {
        let Some((key, _)) = self.answered.pop_front() else { return false };
        let answer = self.known.remove(&key).and_then(|known| known.answer);
        self.bytes -= answer.map_or(0, |answer| answer.body.len());
        true
    }

    fn answer(&mut self, key: &str, answer: Answer, now: Instant) {
        let Some(known) = self.known.get_mut(key) else { return };
        self.bytes += answer.body.len();
        known.answer = Some(answer);
        self.answered.push_back((key.to_string(), now));
        while self.bytes > BYTES_MAX && self.forget_oldest() {}
    }
}

impl Turn {
    /// The request was carried out, and answered so.
    pub(crate) fn answered(mut self, answer: Answer) {
        self.is_answered = true;
        self.repeats.callers().of(self.caller).answer(&self.key, answer, Instant::now());
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.is_answered {
            self.repeats.callers().of(self.caller).known.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(bytes: usize) -> Answer {
        Answer {
            status: StatusCode::CREATED,
            headers: HeaderMap::new(),
            body: Bytes::from(vec![b'x'; bytes]),
        }
    }

    fn done(repeats: &Repeats, key: &str, bytes: usize) {
        let Found::New(turn) = repeats.find(Caller::Owner, key, Content::of("POST /v1/volumes", b"{}"))
        else {
            panic!("{key} is known");
        };
        turn.answered(answer(bytes));
    }

    #[test]
    fn a_key_is_carried_out_once_and_belongs_to_one_request() {
        let repeats = Repeats::default();
        let (content, other) =
            (Content::of("POST /v1/volumes", b"{}"), Content::of("POST /v1/volumes", b"[]"));
        let Found::New(turn) = repeats.find(Caller::Owner, "k", content) else { panic!("it is known") };
        assert!(matches!(repeats.find(Caller::Owner, "k", content), Found::UnderWay));
        assert!(matches!(repeats.find(Caller::Owner, "k", other), Found::Other));
        // Refused, it is free again.
        drop(turn);
        let Found::New(turn) = repeats.find(Caller::Owner, "k", other) else { panic!("it is known") };
        turn.answered(answer(3));
        let Found::Answered(kept) = repeats.find(Caller::Owner, "k", other) else { panic!("it is lost") };
        assert_eq!((kept.status, kept.body.len()), (StatusCode::CREATED, 3));
        assert!(matches!(repeats.find(Caller::Owner, "k", content), Found::Other));
        // Somebody else's key of the same name is another one.
        assert!(matches!(repeats.find(Caller::Guest, "k", content), Found::New(_)));
        // A day later it says nothing any more.
        let later = Instant::now() + KEPT;
        assert!(matches!(repeats.find_at(Caller::Owner, "k", content, later), Found::New(_)));
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_gives_way() {
        let repeats = Repeats::default();
        let content = Content::of("POST /v1/volumes", b"{}");
        for number in 0..=KEYS_MAX {
            done(&repeats, &number.to_string(), 1);
        }
        assert!(matches!(repeats.find(Caller::Owner, "0", content), Found::New(_)), "the oldest is kept");
        assert!(matches!(repeats.find(Caller::Owner, "2", content), Found::Answered(_)));
        for name in ["a", "b", "c"] {
            done(&repeats, name, BYTES_MAX / 2);
        }
        assert!(matches!(repeats.find(Caller::Owner, "a", content), Found::New(_)), "too much is kept");
        assert!(matches!(repeats.find(Caller::Owner, "c", content), Found::Answered(_)));
        assert!(repeats.callers().owner.bytes <= BYTES_MAX);
        let mut turns = Vec::new();
        let full = (0..=KEYS_MAX).find(|number| {
            match repeats.find(Caller::Guest, &number.to_string(), content) {
                Found::New(turn) => turns.push(turn),
                Found::Full => return true,
                _ => panic!("{number} is known"),
            }
            false
        });
        assert_eq!(full, Some(KEYS_MAX));
        turns.clear();
        assert!(matches!(repeats.find(Caller::Guest, "0", content), Found::New(_)));
    }
}
