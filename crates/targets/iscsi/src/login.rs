//! Login: who the initiator is, whether it proves it, and what the session will be like (RFC 7143 section
//! 6.3).
//!
//! ```text
//!   first request ─► identity (names, kind of session) ─► Directory::admit
//!                         │ stage 0                    │ stage 1
//!                         ▼                            ▼
//!                    security: CHAP ──────────► operational keys ──────────► full feature phase
//! ```
//!
//! Invariants: (1) nobody gets past stage 0 without the proof that `admit` asks for; (2) a key is heard once;
//! (3) every failure ends the login with a status of 11.13.5.

use std::collections::BTreeSet;

use crate::chap::{Algorithm, CHALLENGE_BYTES, CHALLENGE_BYTES_MAX, Credential};
use crate::parameters::{Offer, Parameters};
use crate::text;
use crate::wire::{self, FINAL, Numbers, Response, login_status as status, opcode};

/// Requests of one login. Those that are known take four.
const REQUESTS_MAX: u32 = 32;
/// Text of one request with all its continuations.
const TEXT_BYTES_MAX: usize = 64 << 10;
/// "iSCSI names MUST NOT be longer than 223 bytes" (4.2.7.1).
const NAME_BYTES_MAX: usize = 223;
/// The portal group; there is one.
const PORTAL_GROUP: &str = "1";

const STAGE_SECURITY: u8 = 0;
const STAGE_OPERATIONAL: u8 = 1;
const STAGE_FULL_FEATURE: u8 = 3;

/// What an initiator must prove.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Authentication {
    /// Nothing.
    None,
    /// That it knows one of these secrets; and, if it wants that, this side proves that it knows the other.
    Chap { incoming: Vec<Credential>, outgoing: Option<Credential> },
}

/// What becomes of an initiator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Admission {
    /// There is no such target, or none it may know of.
    NotFound,
    /// It may be there later: hosts try again.
    Unavailable,
    /// It may not come in.
    Forbidden,
    /// It may, with this proof.
    Allowed(Authentication),
}

/// What login and discovery ask about targets.
pub trait Directory {
    /// May this initiator have a session with this target, or a discovery session if none is named?
    fn admit(&self, initiator: &str, target: Option<&str>) -> Admission;

    /// May it have one more session there, by this port of its?
    fn has_room(&self, _initiator: &str, _isid: [u8; 6], _target: Option<&str>) -> bool {
        true
    }

    /// Every target that this initiator may know of, with the addresses it is reached at (`192.0.2.1:3260`).
    fn targets(&self, initiator: &str) -> Vec<(String, Vec<String>)>;
}

/// Fills bytes with random ones that nobody can foretell.
pub type Random<'a> = &'a dyn Fn(&mut [u8]);

/// A login that succeeded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Established {
    /// The initiator's name.
    pub initiator: String,
    pub isid: [u8; 6],
    /// The target; `None` in a discovery session.
    pub target: Option<String>,
    /// The name that was proven, if one had to be.
    pub proven_name: Option<String>,
    pub connection: u16,
    pub parameters: Parameters,
}

impl Established {
    /// The name of the initiator's SCSI port (4.3): its own, and the ISID.
    #[must_use]
    pub fn initiator_port(&self) -> String {
        let isid = text::to_binary(&self.isid);
        format!("{},i,{isid}", self.initiator)
    }
}

/// What a login request leads to. The response goes out whatever it is.
pub(crate) enum LoginStep {
    GoesOn,
    Done(Box<Established>),
    /// Why, and whose name somebody gave who could not prove it or may not come in.
    Refused(&'static str, Option<String>),
}

/// How far CHAP has come.
enum Chap {
    /// No algorithm was chosen.
    Begun,
    /// A challenge is out.
    Challenged { algorithm: Algorithm, identifier: u8, challenge: [u8; CHALLENGE_BYTES] },
}

/// The state of the security stage.
enum Security {
    /// Nothing was said of a method.
    Open,
    Chap(Chap),
    /// Proven, or there was nothing to prove.
    Settled,
}

/// Who logs in to what.
struct Identity {
    initiator: String,
    target: Option<String>,
    authentication: Authentication,
}

/// Why a login ends: status, and a sentence for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Failure(u16, &'static str);

/// A login under way.
pub(crate) struct LoginState {
    stage: Option<u8>,
    identity: Option<Identity>,
    /// The initiator's name as it was given.
    claimed: Option<String>,
    security: Security,
    proven_name: Option<String>,
    parameters: Parameters,
    is_length_declared: bool,
    heard: BTreeSet<String>,
    text: Vec<u8>,
    requests: u32,
    session: Option<([u8; 6], u16)>,
}

impl LoginState {
    pub fn new() -> LoginState {
        LoginState {
            stage: None,
            identity: None,
            claimed: None,
            security: Security::Open,
            proven_name: None,
            parameters: Parameters::default(),
            is_length_declared: false,
            heard: BTreeSet::new(),
            text: Vec::new(),
            requests: 0,
            session: None,
        }
    }

    /// Takes a request; the response is put together in `response` and its text in `said`. `session_handle`
    /// is what the session is called if this request completes the login (TSIH).
    #[expect(clippy::too_many_arguments, reason = "the parts a login is made of, each from another owner")]
    pub fn receive(
        &mut self,
        request: &wire::Login,
        task_tag: u32,
        data: &[u8],
        offer: &Offer,
        directory: &dyn Directory,
        random: Random<'_>,
        session_handle: u16,
        numbers: Numbers,
    ) -> (Response, Vec<u8>, LoginStep) {
        let mut said = Vec::new();
        let outcome = self.advance(request, data, offer, directory, random, &mut said);
        let base = |flags: u8, handle: u16| {
            Response::new(opcode::LOGIN_RESPONSE, flags, task_tag, numbers)
                .put(8, &request.isid)
                .put(14, &handle.to_be_bytes())
        };
        match outcome {
            Ok(Some(next_stage)) => {
                let stage = self.stage.replace(next_stage).unwrap_or(STAGE_SECURITY);
                let is_done = next_stage == STAGE_FULL_FEATURE;
                let handle = if is_done { session_handle } else { request.session_handle };
                let response = base(FINAL | stage << 2 | next_stage, handle);
                let step =
                    if is_done { LoginStep::Done(Box::new(self.established())) } else { LoginStep::GoesOn };
                (response, said, step)
            }
            Ok(None) => {
                let stage = self.stage.unwrap_or(STAGE_SECURITY);
                (base(stage << 2, request.session_handle), said, LoginStep::GoesOn)
            }
            Err(Failure(status, why)) => {
                let response = base(0, request.session_handle).put(36, &status.to_be_bytes());
                let is_stranger =
                    [status::AUTHENTICATION_FAILURE, status::AUTHORIZATION_FAILURE].contains(&status);
                let claimed = self.claimed.take().filter(|_| is_stranger);
                (response, Vec::new(), LoginStep::Refused(why, claimed))
            }
        }
    }

    fn established(&mut self) -> Established {
        let identity = self.identity.take().expect("nobody is done without an identity");
        let (isid, connection) = self.session.expect("nobody is done without a request");
        self.parameters.settle();
        Established {
            initiator: identity.initiator,
            isid,
            target: identity.target,
            proven_name: self.proven_name.take(),
            connection,
            parameters: self.parameters,
        }
    }

    /// Does what a request asks. The stage it moves to, if it does.
    fn advance(
        &mut self,
        request: &wire::Login,
        data: &[u8],
        offer: &Offer,
        directory: &dyn Directory,
        random: Random<'_>,
        said: &mut Vec<u8>,
    ) -> Result<Option<u8>, Failure> {
        self.check(request)?;
        if self.text.len() + data.len() > TEXT_BYTES_MAX {
            return Err(Failure(status::INITIATOR_ERROR, "the text of a login is too long"));
        }
        self.text.extend_from_slice(data);
        if request.is_continued {
            return Ok(None);
        }
        let text = std::mem::take(&mut self.text);
        let pairs =
            text::pairs(&text).map_err(|unreadable| Failure(status::INITIATOR_ERROR, unreadable.0))?;
        let is_leading = self.identity.is_none();
        if is_leading {
            self.identify(&pairs, directory)?;
        }
        for (key, value) in &pairs {
            self.hear(key, value, is_leading, offer, said)?;
        }
        self.prove(&pairs, random, said)?;
        if is_leading && self.identity().target.is_some() {
            text::put(said, "TargetPortalGroupTag", PORTAL_GROUP);
        }
        if request.stage == STAGE_OPERATIONAL {
            self.begin_operational(offer, said)?;
        }
        let may_leave = request.stage == STAGE_OPERATIONAL || self.is_proven();
        Ok((request.is_transit && may_leave).then_some(request.next_stage))
    }

    fn identity(&self) -> &Identity {
        self.identity.as_ref().expect("the first text brings an identity")
    }

    /// What a request says of versions, stages and the session, and whether it fits what was before.
    fn check(&mut self, request: &wire::Login) -> Result<(), Failure> {
        self.requests += 1;
        if self.requests > REQUESTS_MAX {
            return Err(Failure(status::INITIATOR_ERROR, "a login of too many requests"));
        }
        if request.version_min != 0 {
            return Err(Failure(status::UNSUPPORTED_VERSION, "a version that is not spoken here"));
        }
        // Another connection of a session that exists: there is one connection for each.
        if request.session_handle != 0 {
            return Err(Failure(status::SESSION_DOES_NOT_EXIST, "a session has one connection"));
        }
        let session = (request.isid, request.connection);
        if *self.session.get_or_insert(session) != session {
            return Err(Failure(status::INITIATOR_ERROR, "a login changed its session on the way"));
        }
        let invalid = Failure(status::INVALID_DURING_LOGIN, "stages of a login that cannot be");
        let stage = *self.stage.get_or_insert(request.stage);
        let is_known = matches!(request.stage, STAGE_SECURITY | STAGE_OPERATIONAL);
        if !is_known || stage != request.stage || (request.is_transit && request.is_continued) {
            return Err(invalid);
        }
        let is_next = matches!(request.next_stage, STAGE_OPERATIONAL | STAGE_FULL_FEATURE)
            && request.next_stage > request.stage;
        if request.is_transit && !is_next { Err(invalid) } else { Ok(()) }
    }

    /// Who it is, from the first text, and whether it may come in.
    fn identify(&mut self, pairs: &[(&str, &str)], directory: &dyn Directory) -> Result<(), Failure> {
        let value_of = |key: &str| pairs.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
        let missing = Failure(status::MISSING_PARAMETER, "a login without a name it needs");
        let initiator = value_of("InitiatorName").ok_or(missing)?;
        if !is_name(initiator) {
            return Err(Failure(status::INITIATOR_ERROR, "an initiator's name that can be none"));
        }
        self.claimed = Some(initiator.to_string());
        let target = match value_of("SessionType").unwrap_or("Normal") {
            "Normal" => Some(value_of("TargetName").ok_or(missing)?),
            "Discovery" => None,
            _ => return Err(Failure(status::INITIATOR_ERROR, "a type of session that is not there")),
        };
        let authentication = match directory.admit(initiator, target) {
            Admission::NotFound => return Err(Failure(status::NOT_FOUND, "no such target")),
            Admission::Unavailable => {
                return Err(Failure(status::SERVICE_UNAVAILABLE, "the target is not there yet"));
            }
            Admission::Forbidden => {
                return Err(Failure(status::AUTHORIZATION_FAILURE, "the initiator may not come in"));
            }
            Admission::Allowed(authentication) => authentication,
        };
        if self.session.is_some_and(|(isid, _)| !directory.has_room(initiator, isid, target)) {
            let why = "the initiator has as many sessions as one may";
            return Err(Failure(status::OUT_OF_RESOURCES, why));
        }
        if authentication == Authentication::None && self.stage == Some(STAGE_OPERATIONAL) {
            self.security = Security::Settled;
        }
        let (initiator, target) = (initiator.to_string(), target.map(str::to_string));
        self.identity = Some(Identity { initiator, target, authentication });
        Ok(())
    }

    /// One key, but for those of CHAP, which count only together.
    fn hear(
        &mut self,
        key: &str,
        value: &str,
        is_leading: bool,
        offer: &Offer,
        said: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        if !self.heard.insert(key.to_string()) {
            return Err(Failure(status::INITIATOR_ERROR, "a key was said twice"));
        }
        match key {
            "InitiatorName" | "TargetName" | "SessionType" if is_leading => Ok(()),
            "InitiatorName" | "TargetName" | "SessionType" => {
                Err(Failure(status::INITIATOR_ERROR, "a login changed its identity on the way"))
            }
            "InitiatorAlias" => Ok(()),
            "AuthMethod" => self.choose_method(value, said),
            "CHAP_A" | "CHAP_N" | "CHAP_R" | "CHAP_I" | "CHAP_C" => Ok(()),
            _ => {
                let is_discovery = self.identity().target.is_none();
                let reply = self.parameters.negotiate(offer, is_discovery, key, value);
                if let Some(value) = reply.text() {
                    text::put(said, key, value);
                }
                Ok(())
            }
        }
    }

    fn choose_method(&mut self, value: &str, said: &mut Vec<u8>) -> Result<(), Failure> {
        if self.stage != Some(STAGE_SECURITY) || !matches!(self.security, Security::Open) {
            return Err(Failure(status::INVALID_DURING_LOGIN, "a method of authentication out of turn"));
        }
        let (wanted, security) = match self.identity().authentication {
            Authentication::None => ("None", Security::Settled),
            Authentication::Chap { .. } => ("CHAP", Security::Chap(Chap::Begun)),
        };
        if !value.split(',').any(|method| method == wanted) {
            return Err(Failure(status::AUTHENTICATION_FAILURE, "no common method of authentication"));
        }
        self.security = security;
        text::put(said, "AuthMethod", wanted);
        Ok(())
    }

    /// The steps of CHAP (12.1.3): choose an algorithm, answer the challenge, ask back.
    fn prove(
        &mut self,
        pairs: &[(&str, &str)],
        random: Random<'_>,
        said: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let value_of = |key: &str| pairs.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
        let has_chap = pairs.iter().any(|(key, _)| key.starts_with("CHAP_"));
        if !has_chap {
            return Ok(());
        }
        let out_of_turn = Failure(status::INVALID_DURING_LOGIN, "CHAP out of turn");
        match &self.security {
            Security::Open | Security::Settled => Err(out_of_turn),
            Security::Chap(Chap::Begun) => {
                let offered = value_of("CHAP_A").ok_or(out_of_turn)?;
                let algorithm = offered.split(',').filter_map(text::number).find_map(Algorithm::of_number);
                let none = Failure(status::AUTHENTICATION_FAILURE, "no common algorithm of CHAP");
                let algorithm = algorithm.ok_or(none)?;
                let mut drawn = [0; CHALLENGE_BYTES + 1];
                random(&mut drawn);
                let [identifier, challenge @ ..] = drawn;
                text::put(said, "CHAP_A", &(algorithm as u32).to_string());
                text::put(said, "CHAP_I", &identifier.to_string());
                text::put(said, "CHAP_C", &text::to_binary(&challenge));
                self.security = Security::Chap(Chap::Challenged { algorithm, identifier, challenge });
                Ok(())
            }
            Security::Chap(Chap::Challenged { algorithm, identifier, challenge }) => {
                let (algorithm, identifier, challenge) = (*algorithm, *identifier, *challenge);
                let (name, response) = value_of("CHAP_N").zip(value_of("CHAP_R")).ok_or(out_of_turn)?;
                let proven = self.check_response(algorithm, identifier, &challenge, name, response)?;
                if let (Some(identifier), Some(asked)) = (value_of("CHAP_I"), value_of("CHAP_C")) {
                    self.answer_back(&proven, algorithm, identifier, asked, &challenge, said)?;
                } else if value_of("CHAP_I").or(value_of("CHAP_C")).is_some() {
                    return Err(out_of_turn);
                }
                self.proven_name = Some(name.to_string());
                self.security = Security::Settled;
                Ok(())
            }
        }
    }

    fn check_response(
        &self,
        algorithm: Algorithm,
        identifier: u8,
        challenge: &[u8],
        name: &str,
        response: &str,
    ) -> Result<Credential, Failure> {
        let failure = Failure(status::AUTHENTICATION_FAILURE, "a wrong name or secret");
        let Authentication::Chap { incoming, .. } = &self.identity().authentication else {
            return Err(failure);
        };
        let response = text::binary(response).ok_or(failure)?;
        let is_right = |credential: &&Credential| {
            credential.name() == name && credential.is_proven(algorithm, identifier, challenge, &response)
        };
        incoming.iter().find(is_right).cloned().ok_or(failure)
    }

    /// The initiator wants a proof too. Its own challenge sent back, or one secret for both directions, would
    /// let it have the proof made by whom it deceives (RFC 7143 9.2.1).
    fn answer_back(
        &self,
        proven: &Credential,
        algorithm: Algorithm,
        identifier: &str,
        asked: &str,
        challenge: &[u8],
        said: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let failure = Failure(status::AUTHENTICATION_FAILURE, "no proof of this side can be given");
        let Authentication::Chap { outgoing: Some(own), .. } = &self.identity().authentication else {
            return Err(failure);
        };
        let identifier = text::number(identifier).and_then(|number| u8::try_from(number).ok());
        let asked = text::binary(asked).filter(|bytes| (1..=CHALLENGE_BYTES_MAX).contains(&bytes.len()));
        let (Some(identifier), Some(asked)) = (identifier, asked) else {
            return Err(Failure(status::INITIATOR_ERROR, "a challenge that can be none"));
        };
        if asked == challenge || own.shares_secret(proven) {
            return Err(failure);
        }
        text::put(said, "CHAP_N", own.name());
        text::put(said, "CHAP_R", &text::to_binary(&own.response(algorithm, identifier, &asked)));
        Ok(())
    }

    fn is_proven(&self) -> bool {
        match self.security {
            Security::Settled => true,
            // Who says nothing of methods has nothing to prove, if that is so.
            Security::Open => self.identity().authentication == Authentication::None,
            Security::Chap(_) => false,
        }
    }

    /// Invariant 1, once more at the door of the next stage; and the one statement this side makes.
    fn begin_operational(&mut self, offer: &Offer, said: &mut Vec<u8>) -> Result<(), Failure> {
        if !self.is_proven() {
            return Err(Failure(status::AUTHENTICATION_FAILURE, "a login that left authentication out"));
        }
        if !self.is_length_declared {
            self.is_length_declared = true;
            self.parameters.target_data_bytes_max = offer.data_bytes_max;
            text::put(said, "MaxRecvDataSegmentLength", &offer.data_bytes_max.to_string());
        }
        Ok(())
    }
}

/// Printable, of one of the three types (4.2.7.2).
fn is_name(name: &str) -> bool {
    let has_type =
        ["iqn.", "eui.", "naa."].iter().any(|kind| name.len() > kind.len() && name.starts_with(kind));
    let is_printable = |byte: u8| byte.is_ascii_graphic() && byte != b',' || !byte.is_ascii();
    has_type && name.len() <= NAME_BYTES_MAX && name.bytes().all(is_printable)
}
