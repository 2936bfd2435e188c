//! Users, tokens, and who changed what.

use ashlar_api::{ApiToken, TokenCreate, TokenCreated, User, UserChange, UserCreate};
use hyper::Method;

use crate::call::{Client, segment};
use crate::error::Result;

impl Client {
    /// Makes a user.
    pub fn user_create(&self, request: &UserCreate) -> Result<User> {
        self.send(Method::POST, "/v1/users", Some(request))
    }

    /// One user.
    pub fn user(&self, name: &str) -> Result<User> {
        self.get(&format!("/v1/users/{}", segment(name)))
    }

    /// Changes a user; its sessions end.
    pub fn user_change(&self, name: &str, request: &UserChange) -> Result<User> {
        self.send(Method::PATCH, &format!("/v1/users/{}", segment(name)), Some(request))
    }

    /// Deletes a user; its sessions end.
    pub fn user_delete(&self, name: &str) -> Result<()> {
        self.call(Method::DELETE, &format!("/v1/users/{}", segment(name)), None).map(drop)
    }

    /// Makes a token; its secret is told this once.
    pub fn token_create(&self, request: &TokenCreate) -> Result<TokenCreated> {
        self.send(Method::POST, "/v1/tokens", Some(request))
    }

    /// One token.
    pub fn token_show(&self, name: &str) -> Result<ApiToken> {
        self.get(&format!("/v1/tokens/{}", segment(name)))
    }

    /// Deletes a token: it opens nothing from now on.
    pub fn token_delete(&self, name: &str) -> Result<()> {
        self.call(Method::DELETE, &format!("/v1/tokens/{}", segment(name)), None).map(drop)
    }
}
