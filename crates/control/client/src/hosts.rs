//! Hosts, and the volumes that are exported to them.

use ashlar_api::{Export, ExportCreate, Host, HostChange, HostCreate};
use hyper::Method;

use crate::call::{Client, segment};
use crate::error::Result;

impl Client {
    /// Lets a host in.
    pub fn host_create(&self, request: &HostCreate) -> Result<Host> {
        self.send(Method::POST, "/v1/hosts", Some(request))
    }

    /// One host.
    pub fn host(&self, name: &str) -> Result<Host> {
        self.get(&format!("/v1/hosts/{}", segment(name)))
    }

    /// Changes what a host proves.
    pub fn host_change(&self, name: &str, change: &HostChange) -> Result<Host> {
        self.send(Method::PATCH, &format!("/v1/hosts/{}", segment(name)), Some(change))
    }

    /// Lets a host in no more.
    pub fn host_delete(&self, name: &str, is_forced: bool) -> Result<()> {
        self.call(Method::DELETE, &format!("/v1/hosts/{}?force={is_forced}", segment(name)), None).map(drop)
    }

    /// Exports a volume.
    pub fn export_create(&self, request: &ExportCreate) -> Result<Export> {
        self.send(Method::POST, "/v1/exports", Some(request))
    }

    /// The export of one volume.
    pub fn export(&self, volume: &str) -> Result<Export> {
        self.get(&format!("/v1/exports/{}", segment(volume)))
    }

    /// Exports a volume no more.
    pub fn export_delete(&self, volume: &str, is_forced: bool) -> Result<()> {
        let path = format!("/v1/exports/{}?force={is_forced}", segment(volume));
        self.call(Method::DELETE, &path, None).map(drop)
    }
}
