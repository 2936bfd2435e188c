//! The settings in force, and what a reload makes of them.

use std::path::PathBuf;
use std::sync::{Arc, RwLock};

use ashlar_api as api;
use toml::{Table, Value};

use super::{AT_ONCE, DESCRIBED, Settings, api_address_of, named_address};
use crate::error::{Error, Result};

/// Where settings come from.
#[derive(Clone, Default)]
pub(crate) struct Source {
    /// The settings file.
    pub(crate) config: Option<PathBuf>,
    /// What the command line says of `api`, over the file.
    pub(crate) api: Option<String>,
    /// What it says of `iscsi_listen`, if anything.
    pub(crate) iscsi_listen: Vec<String>,
}

impl Source {
    /// The settings as they are to be.
    pub(crate) fn load(&self) -> Result<Settings> {
        let mut settings = match &self.config {
            Some(path) => Settings::load(path)?,
            None => Settings::default(),
        };
        if let Some(text) = &self.api {
            settings.api =
                api_address_of(text).map_err(|why| Error::invalid(format!("--api: {why}"), "mend it"))?;
        }
        if !self.iscsi_listen.is_empty() {
            let addresses = self.iscsi_listen.iter().map(|text| named_address(text));
            settings.iscsi_listen = addresses
                .collect::<std::result::Result<_, _>>()
                .map_err(|why| Error::invalid(format!("--iscsi-listen: {why}"), "mend it"))?;
        }
        Ok(settings)
    }
}

/// The settings in force.
pub(crate) struct Live {
    source: Source,
    now: RwLock<Arc<Settings>>,
}

/// What a reload found in the file.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Difference {
    /// In force from now on.
    pub(crate) changed: Vec<&'static str>,
    /// In force from the next start on.
    pub(crate) needs_restart: Vec<&'static str>,
}

impl Live {
    /// Settings that were loaded from there.
    pub(crate) fn new(source: Source, settings: Settings) -> Live {
        Live { source, now: RwLock::new(Arc::new(settings)) }
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// Those in force at this moment. Who holds them does not see a reload.
    pub(crate) fn now(&self) -> Arc<Settings> {
        self.now.read().expect("no holder of this lock panics").clone()
    }

    /// Puts those of the newer settings in force that may change while the array runs.
    pub(crate) fn take_over(&self, newer: &Settings) -> Difference {
        let mut now = self.now.write().expect("no holder of this lock panics");
        let (before, wanted) = (now.table(), newer.table());
        let differs = |name: &&'static str| before.get(*name) != wanted.get(*name);
        let (changed, needs_restart) = DESCRIBED
            .iter()
            .map(|setting| setting.name)
            .filter(differs)
            .partition(|name| AT_ONCE.contains(name));
        *now = Arc::new(now.taking(newer));
        Difference { changed, needs_restart }
    }

    /// The settings as people may see them.
    pub(crate) fn shown(&self) -> api::ArraySettings {
        let now = self.now();
        let (values, defaults) = (now.table(), Settings::default().table());
        let settings = DESCRIBED.iter().map(|setting| api::Setting {
            name: setting.name.to_string(),
            value: now.without_secrets(setting.name, values.get(setting.name)),
            is_default: values.get(setting.name) == defaults.get(setting.name),
            is_reloadable: AT_ONCE.contains(&setting.name),
        });
        let file = self.source.config.as_ref().map(|path| path.display().to_string());
        api::ArraySettings { file, settings: settings.collect() }
    }
}

impl Settings {
    fn table(&self) -> Table {
        Table::try_from(self).expect("settings are plain values")
    }

    /// These settings with what may change at once as `newer` has it: the list [`AT_ONCE`], in Rust.
    fn taking(&self, newer: &Settings) -> Settings {
        let newer = newer.clone();
        Settings {
            api_names: newer.api_names,
            guest_drives: newer.guest_drives,
            guest_mounts: newer.guest_mounts,
            database_port_first: newer.database_port_first,
            lab_results: newer.lab_results,
            scrub_interval_days: newer.scrub_interval_days,
            spare_after_seconds: newer.spare_after_seconds,
            takeover_wait_seconds: newer.takeover_wait_seconds,
            deleted_volumes_hours: newer.deleted_volumes_hours,
            log_format: newer.log_format,
            event_minimum: newer.event_minimum,
            event_command: newer.event_command,
            event_webhook: newer.event_webhook,
            ..self.clone()
        }
    }

    /// A value as TOML writes it. Arguments of a command and paths of a web address often are secrets.
    fn without_secrets(&self, name: &str, value: Option<&Value>) -> String {
        let shown = match (name, self.event_command.split_first(), &self.event_webhook) {
            ("event_command", Some((program, [])), _) => Some(Value::from(vec![program.clone()])),
            ("event_command", Some((program, _)), _) => {
                Some(Value::from(vec![program.clone(), "[arguments not shown]".to_string()]))
            }
            ("event_webhook", _, Some(address)) => Some(Value::from(format!("{address}/[path not shown]"))),
            _ => value.cloned(),
        };
        shown.map(|value| value.to_string()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Every setting at another value than its default.
    fn all_others() -> Settings {
        let text = r#"
            api = "127.0.0.1:0"
            api_names = ["array.example"]
            metrics = "127.0.0.1:0"
            token_file = "/t"
            metrics_token_file = "/m"
            guest_drives = ["/srv"]
            guest_mounts = ["/mnt"]
            socket_group = "7"
            nbd_socket = "off"
            nbd_tcp = "127.0.0.1:0"
            nbd_tls_listen = ["192.0.2.7:10809"]
            nbd_tls_clients = "/c"
            tls_certificate = "/t"
            tls_key = "/k"
            nbd_clients_max = 7
            iscsi_listen = ["192.0.2.7:3260"]
            io_driver = "threads"
            fuse_transport = "uring"
            attach_wait_seconds = 7
            database_port_first = 7777
            console_port = 7
            lab_results = "/l"
            cache_bytes = "7MiB"
            map_cache_bytes = "7MiB"
            buffer_bytes = "7MiB"
            dedupe_index_bytes = 0
            dedupe_run_blocks_min = 7
            dedupe_sample_shift = 7
            scrub_interval_days = 7
            spare_after_seconds = 7
            late_drive_minutes = 7
            missing_drive_wait_seconds = 7
            takeover_wait_seconds = 7
            no_space_wait_seconds = 7
            deleted_volumes_hours = 7
            log_format = "json"
            event_minimum = "error"
            event_command = ["/bin/mail", "hunter2"]
            event_webhook = "http://127.0.0.1:7/hunter2"
        "#;
        Settings::parse(text).unwrap()
    }

    #[test]
    fn a_reload_changes_what_the_page_says_and_nothing_else() {
        let live = Live::new(Source::default(), Settings::default());
        let wanted = all_others();
        let told = live.take_over(&wanted);
        assert_eq!(told.changed.len() + told.needs_restart.len(), DESCRIBED.len(), "{told:?}");
        let (now, default, wanted) = (live.now().table(), Settings::default().table(), wanted.table());
        for setting in &DESCRIBED {
            let expected = if told.changed.contains(&setting.name) { &wanted } else { &default };
            assert_eq!(now[setting.name], expected[setting.name], "{}", setting.name);
            assert_eq!(told.changed.contains(&setting.name), AT_ONCE.contains(&setting.name));
        }
        // A second one finds at its place what the first put there.
        let again = live.take_over(&all_others());
        assert_eq!((again.changed.len(), again.needs_restart.len()), (0, told.needs_restart.len()));
    }

    #[test]
    fn what_people_see_holds_no_secret() {
        let shown = Live::new(Source::default(), all_others()).shown();
        assert_eq!(shown.settings.len(), DESCRIBED.len());
        assert!(!format!("{shown:?}").contains("hunter2"), "{shown:?}");
        let value = |name: &str| {
            let setting = shown.settings.iter().find(|setting| setting.name == name).unwrap();
            (setting.value.clone(), setting.is_default, setting.is_reloadable)
        };
        assert_eq!(value("cache_bytes"), ("7340032".to_string(), false, false));
        assert_eq!(value("log_format"), ("\"json\"".to_string(), false, true));
        let (webhook, ..) = value("event_webhook");
        assert!(webhook.contains("http://127.0.0.1:7/"), "{webhook}");
        let default = Live::new(Source::default(), Settings::default()).shown();
        assert!(default.settings.iter().all(|setting| setting.is_default), "{default:?}");
        // What is shown of ordinary settings is what a file may say.
        let is_plain = |setting: &&api::Setting| !setting.name.starts_with("event_");
        let text: String = shown
            .settings
            .iter()
            .filter(is_plain)
            .map(|setting| format!("{} = {}\n", setting.name, setting.value))
            .collect();
        assert_eq!(Settings::parse(&text).unwrap().table()["nbd_tcp"], all_others().table()["nbd_tcp"]);
    }

    #[test]
    fn the_command_line_counts_at_a_reload_too() {
        let source = Source {
            api: Some("127.0.0.1:0".to_string()),
            iscsi_listen: vec!["127.0.0.1:3260".to_string()],
            config: None,
        };
        let live = Live::new(source.clone(), source.load().unwrap());
        let told = live.take_over(&source.load().unwrap());
        assert_eq!(told, Difference { changed: Vec::new(), needs_restart: Vec::new() });
    }
}
