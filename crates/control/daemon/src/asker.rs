//! Who asks, and how that was proven.
//!
//! Each request carries an [`Asker`] once its sender is known: the peer of the socket by its credentials, all
//! others by what they show. What a user or a token may is looked up anew at each request, so that a change
//! counts at once.

use std::net::SocketAddr;

use ashlar_api::{Role, TokenScope};

use crate::places::Caller;

/// Who it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Who {
    /// The peer of the socket, by its credentials; none where the system does not tell them.
    Peer { uid: Option<u32>, caller: Caller },
    /// Somebody with the token of a file.
    File,
    /// A user as it was when it logged in: a change of it makes another stamp.
    User { name: String, stamp: u64 },
    /// A token of a program.
    Token { name: String, stamp: u64 },
}

impl Who {
    /// As the record of changes has it.
    pub(crate) fn text(&self) -> String {
        match self {
            Who::Peer { uid: Some(uid), .. } => format!("uid {uid}"),
            Who::Peer { uid: None, .. } => "uid unknown".to_string(),
            Who::File => "token file".to_string(),
            Who::User { name, .. } => format!("user {name}"),
            Who::Token { name, .. } => format!("token {name}"),
        }
    }

    /// Whose idempotency keys count: nobody gets the answer that another one got.
    pub(crate) fn keys_of(&self) -> String {
        match self {
            Who::Peer { caller: Caller::Owner, .. } => "owner".to_string(),
            Who::Peer { .. } | Who::File => "guest".to_string(),
            Who::User { name, stamp } => format!("user {name} {stamp}"),
            Who::Token { name, stamp } => format!("token {name} {stamp}"),
        }
    }
}

/// Who asks, and what that one may.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Asker {
    pub(crate) who: Who,
    pub(crate) caller: Caller,
    pub(crate) role: Role,
    /// The only thing that the token is for.
    pub(crate) only: Option<TokenScope>,
    /// The session that was shown.
    pub(crate) session: Option<u64>,
}

impl Asker {
    /// The peer of the socket: whoever may open it may do everything, but what only root may.
    pub(crate) fn at_socket(uid: Option<u32>, caller: Caller) -> Asker {
        let who = Who::Peer { uid, caller };
        Asker { who, caller, role: Role::Admin, only: None, session: None }
    }

    /// Somebody with the token of a file.
    pub(crate) fn with_file(only: Option<TokenScope>) -> Asker {
        Asker { who: Who::File, caller: Caller::Guest, role: Role::Admin, only, session: None }
    }

    /// The same by way of this session.
    pub(crate) fn in_session(self, session: u64) -> Asker {
        Asker { session: Some(session), ..self }
    }
}

/// Where a request comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Visitor {
    /// None: over the socket.
    pub(crate) address: Option<SocketAddr>,
}
