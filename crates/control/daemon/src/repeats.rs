//! Requests that may come twice: who lost the answer to a create sends it again with the same key, and gets
//! the same answer instead of a second object.
//!
//! Answers of successes are kept for a day, in memory alone, for each caller within bounds of its own: nobody
//! makes another one's keys be forgotten, but where there are more callers than are kept. A request that was
//! refused changed nothing: its key is free again.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};

/// How long an answer is kept.
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// Keys of one caller at most. Arbitrary: a create every minute and a half.
const KEYS_MAX: usize = 1_000;
/// Callers at most whose keys are kept; the one that was not heard of for longest gives way. Arbitrary.
const CALLERS_MAX: usize = 64;
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

/// Keys by caller.
#[derive(Default)]
struct Callers(BTreeMap<String, Keys>);

impl Callers {
    /// The keys of a caller, which may be new; `None` where those of nobody else may go.
    fn of(&mut self, caller: &str, now: Instant) -> Option<&mut Keys> {
        if !self.0.contains_key(caller) && self.0.len() >= CALLERS_MAX {
            let idle = self.0.iter().filter(|(_, keys)| keys.known.len() == keys.answered.len());
            let oldest = idle.min_by_key(|(_, keys)| keys.heard).map(|(caller, _)| caller.clone())?;
            self.0.remove(&oldest);
        }
        let keys = self.0.entry(caller.to_string()).or_default();
        keys.heard = Some(now);
        Some(keys)
    }
}

/// The keys of one caller.
#[derive(Default)]
struct Keys {
    /// When the caller last sent one.
    heard: Option<Instant>,
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
    caller: String,
    key: String,
    is_answered: bool,
}

impl Repeats {
    fn callers(&self) -> MutexGuard<'_, Callers> {
        self.0.lock().expect("no holder of this lock panics")
    }

    /// What is to be done with a request.
    pub(crate) fn find(&self, caller: &str, key: &str, content: Content) -> Found {
        self.find_at(caller, key, content, Instant::now())
    }

    fn find_at(&self, caller: &str, key: &str, content: Content, now: Instant) -> Found {
        let mut callers = self.callers();
        let Some(keys) = callers.of(caller, now) else { return Found::Full };
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
        Found::New(Turn {
            repeats: self.clone(),
            caller: caller.to_string(),
            key: key.to_string(),
            is_answered: false,
        })
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
        if let Some(keys) = self.repeats.callers().0.get_mut(&self.caller) {
            keys.answer(&self.key, answer, Instant::now());
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.is_answered
            && let Some(keys) = self.repeats.callers().0.get_mut(&self.caller)
        {
            keys.known.remove(&self.key);
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
        let Found::New(turn) = repeats.find("owner", key, Content::of("POST /v1/volumes", b"{}")) else {
            panic!("{key} is known");
        };
        turn.answered(answer(bytes));
    }

    #[test]
    fn a_key_is_carried_out_once_and_belongs_to_one_request() {
        let repeats = Repeats::default();
        let (content, other) =
            (Content::of("POST /v1/volumes", b"{}"), Content::of("POST /v1/volumes", b"[]"));
        let Found::New(turn) = repeats.find("owner", "k", content) else { panic!("it is known") };
        assert!(matches!(repeats.find("owner", "k", content), Found::UnderWay));
        assert!(matches!(repeats.find("owner", "k", other), Found::Other));
        // Refused, it is free again.
        drop(turn);
        let Found::New(turn) = repeats.find("owner", "k", other) else { panic!("it is known") };
        turn.answered(answer(3));
        let Found::Answered(kept) = repeats.find("owner", "k", other) else { panic!("it is lost") };
        assert_eq!((kept.status, kept.body.len()), (StatusCode::CREATED, 3));
        assert!(matches!(repeats.find("owner", "k", content), Found::Other));
        // Somebody else's key of the same name is another one.
        assert!(matches!(repeats.find("guest", "k", content), Found::New(_)));
        // A day later it says nothing any more.
        let later = Instant::now() + KEPT;
        assert!(matches!(repeats.find_at("owner", "k", content, later), Found::New(_)));
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_gives_way() {
        let repeats = Repeats::default();
        let content = Content::of("POST /v1/volumes", b"{}");
        for number in 0..=KEYS_MAX {
            done(&repeats, &number.to_string(), 1);
        }
        assert!(matches!(repeats.find("owner", "0", content), Found::New(_)), "the oldest is kept");
        assert!(matches!(repeats.find("owner", "2", content), Found::Answered(_)));
        for name in ["a", "b", "c"] {
            done(&repeats, name, BYTES_MAX / 2);
        }
        assert!(matches!(repeats.find("owner", "a", content), Found::New(_)), "too much is kept");
        assert!(matches!(repeats.find("owner", "c", content), Found::Answered(_)));
        assert!(repeats.callers().0["owner"].bytes <= BYTES_MAX);
        let mut turns = Vec::new();
        let full = (0..=KEYS_MAX).find(|number| {
            match repeats.find("guest", &number.to_string(), content) {
                Found::New(turn) => turns.push(turn),
                Found::Full => return true,
                _ => panic!("{number} is known"),
            }
            false
        });
        assert_eq!(full, Some(KEYS_MAX));
        turns.clear();
        assert!(matches!(repeats.find("guest", "0", content), Found::New(_)));
    }

    #[test]
    fn callers_are_bounded_and_who_works_keeps_his_keys() {
        let repeats = Repeats::default();
        let content = Content::of("POST /v1/volumes", b"{}");
        let Found::New(turn) = repeats.find("first", "k", content) else { panic!("it is known") };
        for number in 0..CALLERS_MAX * 2 {
            let Found::New(other) = repeats.find(&format!("user {number}"), "k", content) else {
                panic!("{number} is known");
            };
            other.answered(answer(1));
        }
        assert_eq!(repeats.callers().0.len(), CALLERS_MAX);
        turn.answered(answer(1));
        assert!(matches!(repeats.find("first", "k", content), Found::Answered(_)));
        assert!(matches!(repeats.find("user 0", "k", content), Found::New(_)));
    }
}
