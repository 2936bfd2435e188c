//! What the array tells of itself.

use ashlar_api::{ArraySettings, ExportsQuery, HostsQuery};
use ashlar_client::{Client, Error, Result};
use serde::Serialize;

use super::bundle::Bundle;

/// Adds all that the array answers. `Err` when it answers nothing at all.
pub fn collect(client: &Client, settings: Option<&ArraySettings>, bundle: &mut Bundle) -> Result<()> {
    // First of all: where this fails the others need not be waited for.
    bundle.json("status.json", &client.status()?);
    if let Some(settings) = settings {
        bundle.json("settings.json", settings);
    }
    add(bundle, "pools.json", client.pools());
    add(bundle, "volumes.json", client.volumes());
    add(bundle, "deleted-volumes.json", client.deleted_volumes());
    add(bundle, "snapshots.json", client.snapshots());
    add(bundle, "databases.json", client.databases());
    add(bundle, "schedules.json", client.schedules());
    add(bundle, "attachments.json", client.attachments());
    add(bundle, "clients.json", client.clients());
    add(bundle, "hosts.json", client.hosts_page(&HostsQuery::default()).map(|page| page.items));
    add(bundle, "exports.json", client.exports_page(&ExportsQuery::default()).map(|page| page.items));
    add(bundle, "jobs.json", client.jobs());
    add(bundle, "io.json", client.io());
    add(bundle, "slow-requests.json", client.slow_requests());
    add(bundle, "events.json", client.events(0));
    match client.metrics() {
        Ok(metrics) => bundle.text("metrics.txt", &metrics),
        Err(error) => miss(bundle, "metrics.txt", &error),
    }
    Ok(())
}

fn add<T: Serialize>(bundle: &mut Bundle, name: &str, answer: Result<T>) {
    match answer {
        Ok(answer) => bundle.json(name, &answer),
        Err(error) => miss(bundle, name, &error),
    }
}

fn miss(bundle: &mut Bundle, name: &str, error: &Error) {
    bundle.miss(name, &error.to_string());
}
