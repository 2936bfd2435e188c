//! Users, tokens and logins.

use std::time::{Duration, Instant};

use ashlar_api as api;
use ashlar_api::{PASSWORD_LETTERS_MAX, PASSWORD_LETTERS_MIN, TOKEN_SECONDS_MAX};

use super::Service;
use crate::access::{self, PasswordHash, TOKENS_MAX, TokenRecord, USERS_MAX, UserRecord, unix_seconds};
use crate::asker::{Asker, Visitor, Who};
use crate::error::{Error, Result};
use crate::names;
use crate::sessions::SESSION_LIFE;
use crate::tag::Seen;

/// How often it is written down when users and tokens were used. Arbitrary.
const USES_INTERVAL: Duration = Duration::from_secs(60);

impl Service {
    /// All users, by name.
    pub(crate) fn all_users(&self) -> Result<Vec<api::User>> {
        self.access.check_known()?;
        let mut users: Vec<api::User> = self.access.users().iter().map(|user| self.user_view(user)).collect();
        users.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(users)
    }

    /// One user.
    pub(crate) fn user(&self, name: &str) -> Result<api::User> {
        self.access.check_known()?;
        let user = self.access.user(name).ok_or_else(|| Error::not_found("user", name))?;
        Ok(self.user_view(&user))
    }

    fn user_view(&self, user: &UserRecord) -> api::User {
        api::User {
            name: user.name.clone(),
            role: user.role,
            is_disabled: user.is_disabled,
            created_unix_seconds: user.created_unix_seconds,
            password_set_unix_seconds: user.password_set_unix_seconds,
            last_login_unix_seconds: self.access.last_use(&format!("user {}", user.name)),
            session_count: self.console.sessions.count(&who_is(user)),
        }
    }

    /// Makes a user.
    pub(crate) async fn user_create(&self, request: api::UserCreate) -> Result<api::User> {
        let api::UserCreate { name, role, password } = request;
        names::check("user", &name)?;
        check_password(&name, &password)?;
        let password = self.access.passwords.hash(password).await?;
        let turn = self.change().await?;
        let now = unix_seconds();
        self.access.change(&self.state, |record| {
            if record.user.iter().any(|user| user.name == name) {
                return Err(taken("user", &name));
            }
            check_count("users", record.user.len(), USERS_MAX)?;
            let stamp = record.next_stamp();
            record.user.push(UserRecord {
                name: name.clone(),
                stamp,
                role,
                is_disabled: false,
                created_unix_seconds: now,
                password_set_unix_seconds: now,
                password,
            });
            Ok(())
        })?;
        self.access.forget_use(&format!("user {name}"));
        drop(turn);
        self.log.info(format!("user {name}"), format!("made with the role {}", role.name()));
        self.user(&name)
    }

    /// Changes a user; its sessions end.
    pub(crate) async fn user_change(
        &self,
        name: &str,
        request: api::UserChange,
        seen: &Seen,
    ) -> Result<api::User> {
        let api::UserChange { role, password, is_disabled } = request;
        if role.is_none() && password.is_none() && is_disabled.is_none() {
            let what = format!("user `{name}`: nothing is to be changed");
            return Err(Error::unfit(what, "name what is to be another: --role, --password-file, ..."));
        }
        let password = match password {
            Some(password) => {
                check_password(name, &password)?;
                Some(self.access.passwords.hash(password).await?)
            }
            None => None,
        };
        let turn = self.change().await?;
        seen.check(&self.user(name)?)?;
        let said = said_of(role, password.is_some(), is_disabled);
        self.change_user(name, |user| {
            user.role = role.unwrap_or(user.role);
            user.is_disabled = is_disabled.unwrap_or(user.is_disabled);
            set_password(user, password);
        })?;
        drop(turn);
        self.log.info(format!("user {name}"), format!("has {said} now; its sessions ended"));
        self.user(name)
    }

    fn change_user(&self, name: &str, change: impl FnOnce(&mut UserRecord)) -> Result<()> {
        self.access.change(&self.state, |record| {
            let stamp = record.next_stamp();
            let user = record.user.iter_mut().find(|user| user.name == name);
            let user = user.ok_or_else(|| Error::not_found("user", name))?;
            change(user);
            user.stamp = stamp;
            Ok(())
        })
    }

    /// Deletes a user; its sessions end.
    pub(crate) async fn user_delete(&self, name: &str, seen: &Seen) -> Result<()> {
        let _turn = self.change().await?;
        seen.check(&self.user(name)?)?;
        self.access.change(&self.state, |record| {
            record.user.retain(|user| user.name != name);
            Ok(())
        })?;
        self.access.forget_use(&format!("user {name}"));
        self.log.info(format!("user {name}"), "deleted; its sessions ended");
        Ok(())
    }

    /// All tokens, by name.
    pub(crate) fn tokens(&self) -> Result<Vec<api::ApiToken>> {
        self.access.check_known()?;
        let mut tokens: Vec<api::ApiToken> =
            self.access.tokens().iter().map(|token| self.token_view(token)).collect();
        tokens.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(tokens)
    }

    /// One token.
    pub(crate) fn token(&self, name: &str) -> Result<api::ApiToken> {
        let found = self.tokens()?.into_iter().find(|token| token.name == name);
        found.ok_or_else(|| Error::not_found("token", name))
    }

    fn token_view(&self, token: &TokenRecord) -> api::ApiToken {
        api::ApiToken {
            name: token.name.clone(),
            role: token.role,
            only: token.only,
            created_unix_seconds: token.created_unix_seconds,
            created_by: token.created_by.clone(),
            expires_unix_seconds: token.expires_unix_seconds,
            is_expired: token.is_expired(unix_seconds()),
            last_used_unix_seconds: self.access.last_use(&format!("token {}", token.name)),
        }
    }

    /// Makes a token; its secret is in this answer and nowhere else.
    pub(crate) async fn token_create(
        &self,
        request: api::TokenCreate,
        by: String,
    ) -> Result<api::TokenCreated> {
        let api::TokenCreate { name, role, only, expires_after_seconds } = request;
        names::check("token", &name)?;
        if let Some(seconds) = expires_after_seconds.filter(|one| !(1..=TOKEN_SECONDS_MAX).contains(one)) {
            let what = format!("token `{name}` cannot end after {seconds} s");
            let action = format!("let it end after 1 to {TOKEN_SECONDS_MAX} seconds, or not at all");
            return Err(Error::invalid(what, action));
        }
        let (secret, hash) = access::new_secret()?;
        let turn = self.change().await?;
        let now = unix_seconds();
        self.access.change(&self.state, |record| {
            if record.token.iter().any(|token| token.name == name) {
                return Err(taken("token", &name));
            }
            check_count("tokens", record.token.len(), TOKENS_MAX)?;
            let stamp = record.next_stamp();
            record.token.push(TokenRecord {
                name: name.clone(),
                stamp,
                role,
                only,
                hash,
                created_unix_seconds: now,
                created_by: by,
                expires_unix_seconds: expires_after_seconds.map(|seconds| now + seconds),
            });
            Ok(())
        })?;
        self.access.forget_use(&format!("token {name}"));
        drop(turn);
        self.log.info(format!("token {name}"), format!("made with the role {}", role.name()));
        Ok(api::TokenCreated { token: self.token(&name)?, secret })
    }

    /// Deletes a token: it opens nothing from now on.
    pub(crate) async fn token_delete(&self, name: &str) -> Result<()> {
        let _turn = self.change().await?;
        self.token(name)?;
        self.access.change(&self.state, |record| {
            record.token.retain(|token| token.name != name);
            Ok(())
        })?;
        self.access.forget_use(&format!("token {name}"));
        self.log.info(format!("token {name}"), "deleted");
        Ok(())
    }

    /// Somebody logs in.
    pub(crate) async fn log_in(
        &self,
        request: api::SessionCreate,
        visitor: Visitor,
    ) -> Result<api::SessionOpened> {
        let api::SessionCreate { user: name, password } = request;
        let user = self.prove(&name, password, visitor).await?;
        let token = self.console.sessions.log_in(who_is(&user))?;
        self.access.note_use(&format!("user {name}"));
        let expires_seconds = SESSION_LIFE.as_secs();
        Ok(api::SessionOpened { token, user: name, role: user.role, expires_seconds })
    }

    /// A user whose password this is.
    async fn prove(&self, name: &str, password: String, visitor: Visitor) -> Result<UserRecord> {
        let from = visitor.address.map(|address| address.ip());
        // All that cannot be a name counts as the same one: nobody fills memory with names.
        let counted = if names::check("user", name).is_ok() { name } else { "" };
        let begun = self.access.attempts().begin(counted, from, Instant::now());
        begun.map_err(too_many)?;
        let user = self.access.user(name);
        // A user who is not there takes as long.
        let kept = user.as_ref().map(|user| user.password.clone());
        let is_right = self.access.passwords.is(password, kept).await;
        // No room to look at it is no failure.
        let is_right = is_right.inspect_err(|_| self.access.attempts().undo(counted, from))?;
        match user.filter(|user| is_right && !user.is_disabled) {
            Some(user) => {
                self.access.attempts().succeeded(name, from, Instant::now());
                Ok(user)
            }
            None => Err(wrong_login()),
        }
    }

    /// A user gets another password, by itself; its sessions end.
    pub(crate) async fn password_change(
        &self,
        asker: &Asker,
        request: api::PasswordChange,
        visitor: Visitor,
    ) -> Result<()> {
        let Who::User { name, stamp } = &asker.who else {
            return Err(Error::unfit(
                "only a user who logged in has a password to change",
                "`ashlar user set ... --password-file ...` gives any user another",
            ));
        };
        check_password(name, &request.new_password)?;
        self.prove(name, request.password, visitor).await?;
        let password = self.access.passwords.hash(request.new_password).await?;
        let _turn = self.change().await?;
        // An admin may have given it another meanwhile, to keep out whoever asks.
        if self.access.user(name).is_none_or(|user| user.stamp != *stamp) {
            return Err(Error::unauthorized("the user was changed meanwhile, and its sessions ended"));
        }
        self.change_user(name, |user| set_password(user, Some(password)))?;
        self.log.info(format!("user {name}"), "gave itself another password; its sessions ended");
        Ok(())
    }

    /// Whether somebody who was let in still is.
    pub(crate) fn is_let_in(&self, asker: &Asker) -> bool {
        let is_open = asker.session.is_none_or(|session| self.console.sessions.is_open(session));
        is_open && self.access.asker(&asker.who).is_some()
    }

    /// Writes down when users and tokens were used.
    pub(crate) async fn keep_uses(self: std::sync::Arc<Self>) {
        loop {
            tokio::time::sleep(USES_INTERVAL).await;
            self.store_uses();
        }
    }

    /// The same once.
    pub(crate) fn store_uses(&self) {
        if let Err(error) = self.access.store_uses(&self.state) {
            self.log.warning("access", format!("when users and tokens were used last: {error}"));
        }
    }
}

fn who_is(user: &UserRecord) -> Who {
    Who::User { name: user.name.clone(), stamp: user.stamp }
}

fn set_password(user: &mut UserRecord, password: Option<PasswordHash>) {
    if let Some(password) = password {
        user.password = password;
        user.password_set_unix_seconds = unix_seconds();
    }
}

fn said_of(role: Option<api::Role>, has_password: bool, is_disabled: Option<bool>) -> String {
    let role = role.map(|role| format!("the role {}", role.name()));
    let password = has_password.then(|| "another password".to_string());
    let door = is_disabled.map(|is_disabled| if is_disabled { "no way in" } else { "a way in" }.to_string());
    [role, password, door].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn check_password(user: &str, password: &str) -> Result<()> {
    let count = password.chars().count();
    let wrong = |what: String, action: String| Err(Error::invalid(format!("user `{user}`: {what}"), action));
    if !(PASSWORD_LETTERS_MIN..=PASSWORD_LETTERS_MAX).contains(&count) {
        return wrong(
            format!("a password of {count} letters is not taken"),
            format!(
                "choose one of {PASSWORD_LETTERS_MIN} to {PASSWORD_LETTERS_MAX} letters: several words are good"
            ),
        );
    }
    if password.chars().any(char::is_control) {
        return wrong(
            "the password has letters that nobody can type".to_string(),
            "leave them out".to_string(),
        );
    }
    if password.eq_ignore_ascii_case(user) {
        let what = format!("user `{user}`: the password is its name");
        return Err(Error::unfit(what, "choose another one"));
    }
    Ok(())
}

fn check_count(what: &str, count: usize, most: usize) -> Result<()> {
    match count < most {
        true => Ok(()),
        false => Err(Error::new(
            api::ErrorKind::Busy,
            format!("there are {count} {what}, which is the limit"),
            "delete some that nobody needs",
        )),
    }
}

fn taken(what: &str, name: &str) -> Error {
    let kind = if what == "user" { api::ObjectKind::User } else { api::ObjectKind::Token };
    Error::new(api::ErrorKind::Exists, format!("{what} `{name}` exists"), "choose another name")
        .about(kind, name)
}

fn too_many(wait: Duration) -> Error {
    let seconds = wait.as_secs() + 1;
    Error::new(
        api::ErrorKind::TooMany,
        "too many logins of this user or from this address failed",
        format!("wait {seconds} s, then log in again"),
    )
    .in_seconds(seconds)
}

fn wrong_login() -> Error {
    Error::new(
        api::ErrorKind::Unauthorized,
        "the user or the password is wrong, or the user is disabled",
        "look at both; an admin gives another password with `ashlar user set ... --password-file ...`",
    )
    .because(api::Reason::WrongLogin)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn passwords_are_long_and_not_the_name() {
        check_password("ada", "correct horse battery").unwrap();
        check_password("ada", &"ä".repeat(PASSWORD_LETTERS_MIN)).unwrap();
        let long = "x".repeat(PASSWORD_LETTERS_MAX + 1);
        for wrong in ["", "eleven char", "twelve\nletters", &long] {
            let error = check_password("ada", wrong).unwrap_err();
            assert!(wrong.is_empty() || !error.to_string().contains(wrong), "{error}");
        }
        assert!(check_password("administrator", "Administrator").is_err());
    }
}
