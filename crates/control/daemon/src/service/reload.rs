//! Settings that are read again while the array runs.

use std::sync::Arc;

use ashlar_api as api;
use tokio::signal::unix::Signal;

use super::Service;
use crate::error::{Error, Result};

/// The setting that names the file of the certificate.
const CERTIFICATE: &str = "tls_certificate";

impl Service {
    /// Reads the settings again at each of these signals.
    pub(crate) async fn reload_at(self: Arc<Self>, mut hangup: Signal) {
        while hangup.recv().await.is_some() {
            if let Err(error) = self.reload().await {
                self.log.warning("settings", format!("not read again: {error}"));
            }
        }
    }

    /// Reads the settings file again. A file with a mistake in it changes nothing.
    pub(crate) async fn reload(&self) -> Result<api::Reloaded> {
        let source = self.settings.source().clone();
        let Some(file) = source.config.as_ref().map(|path| path.display().to_string()) else {
            return Err(Error::invalid(
                "the array was started without a settings file",
                "start it with one: `ashlar serve` takes `--config FILE`",
            )
            .over_rest("whoever starts the array names a settings file"));
        };
        // The file may lie where reading takes long.
        let loaded = tokio::task::spawn_blocking(move || -> Result<_> {
            let settings = source.load()?;
            let places = settings.places().map_err(|why| {
                Error::invalid(why, "mend the settings file").because(api::Reason::WrongSettings)
            })?;
            Ok((settings, places))
        });
        let (newer, places) = loaded.await.unwrap_or_else(|_| Err(Error::stopping()))?;
        let certificate = self.newer_certificate(&newer).await?;
        let mut told = self.settings.take_over(&newer);
        let is_brought = certificate.as_ref().is_some_and(|certificate| !certificate.is_made);
        // Another one in the same file.
        if self.take_certificate(certificate) && is_brought && !told.changed.contains(&CERTIFICATE) {
            told.changed.push(CERTIFICATE);
        }
        self.places.replace(places);
        self.log.set_format(newer.log_format);
        let list = |names: &[&str]| match names {
            [] => "nothing".to_string(),
            names => names.join(", "),
        };
        let mut line = format!("read again from {file}: {} changed", list(&told.changed));
        if !told.needs_restart.is_empty() {
            line += &format!("; {} at the next start", list(&told.needs_restart));
        }
        self.log.info("settings", line);
        let names = |names: Vec<&str>| names.into_iter().map(str::to_string).collect();
        Ok(api::Reloaded { file, changed: names(told.changed), needs_restart: names(told.needs_restart) })
    }
}
