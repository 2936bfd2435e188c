//! Settings files are read as the server reads them, and judged by what they say last.

use super::*;
use crate::adopt::Adoption;
use crate::server::Places;

fn places(data: &Path) -> Places {
    Places { data: data.into(), socket: data.join("../run"), port: 1, ..Places::default() }
}

/// The problems of a data directory whose `postgresql.conf` says this, with these settings of ours.
fn problems(text: &str, automatic: &str, ours: &Settings, adoption: &Adoption) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("clone");
    fs::create_dir(&data).unwrap();
    fs::write(data.join(SERVER_FILE), text).unwrap();
    fs::write(data.join(AUTO_FILE), automatic).unwrap();
    fs::write(data.join(SETTINGS_FILE), "log_directory = '/of/the/source'\n").unwrap();
    judge(&read(&data, ours).unwrap(), &Bounds::new(&places(&data), adoption))
}

fn of_text(text: &str) -> Vec<String> {
    problems(text, "", &Settings::new(), &Adoption::default())
}

#[test]
fn lines_are_read_as_the_server_reads_them() {
    let read = |line: &str| assignment(line).unwrap();
    let pair = |name: &str, value: &str| (name.to_string(), value.to_string());
    assert_eq!(read("  Log_Directory = 'a b' # here"), pair("log_directory", "a b"));
    assert_eq!(read("port 5433#x"), pair("port", "5433"));
    assert_eq!(read(r"archive_command='cp %p ''/a\\b'''"), pair("archive_command", r"cp %p '/a\b'"));
    assert_eq!(read("include_dir'conf.d'"), pair("include_dir", "conf.d"));
    assert_eq!(assignment("# log_directory = '/x'"), None);
    assert_eq!(assignment("   "), None);
}

#[test]
fn every_setting_that_leads_outside_is_named() {
    for name in PATHS {
        let found = of_text(&format!("shared_buffers = 1MB\n{name} = '/source/x'\n"));
        assert_eq!(found.len(), 1, "{name}");
        assert!(found[0].starts_with(&format!("postgresql.conf line 2: {name} = '/source/x'")), "{found:?}");
    }
    for include in INCLUDES {
        assert_eq!(of_text(&format!("{include} '/source/more.conf'")).len(), 1, "{include}");
    }
    for command in COMMANDS {
        assert_eq!(of_text(&format!("{command} = '/bin/cp \"/source/archive/%f\" %p'")).len(), 1);
        assert!(of_text(&format!("{command} = '/bin/cp x/%f %p 2> /dev/null'")).is_empty());
    }
}

#[test]
fn a_copy_does_not_archive() {
    assert_eq!(of_text("archive_command = 'rsync %p other:archive/%f'").len(), 1);
    assert_eq!(of_text("archive_library = 'basic_archive'").len(), 1);
    assert!(of_text("archive_mode = on\narchive_command = '/bin/true'").is_empty());
}

#[test]
fn the_last_word_counts_and_ours_is_the_one_to_come() {
    assert!(of_text("log_directory = '/source/log'\nlog_directory = 'log'").is_empty());
    let ours = Settings::new().with("archive_command", "").with("log_directory", "log");
    let none = Adoption::default();
    assert!(problems("archive_command = 'cp %p /source/%f'", "", &ours, &none).is_empty());
    let included = "include 'ashlar.conf'\narchive_command = 'cp %p /source/%f'";
    assert_eq!(problems(included, "", &ours, &none).len(), 1, "said after ours");
    let found = problems("", "archive_command = 'cp %p /source/%f'", &ours, &none);
    assert!(found[0].starts_with("postgresql.auto.conf line 1: "), "{found:?}");
}

#[test]
fn what_is_shared_may_be_named_and_what_is_near_may_not() {
    let shared = Adoption { shared: vec!["/etc/ssl".into()], ..Adoption::default() };
    let text = "ssl_cert_file = '/etc/ssl/certs/x.pem'";
    assert_eq!(of_text(text).len(), 1);
    assert!(problems(text, "", &Settings::new(), &shared).is_empty());
    assert_eq!(of_text("log_directory = '../log'").len(), 1, "a source beside the clone may have it");
    assert!(of_text("hba_file = 'pg_hba.conf'\nlog_directory = 'log'").is_empty());
}

#[test]
fn files_that_are_included_are_read_too() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("clone");
    fs::create_dir_all(data.join("conf.d")).unwrap();
    fs::write(data.join(SERVER_FILE), "include_dir 'conf.d'\ninclude_if_exists 'absent.conf'\n").unwrap();
    fs::write(data.join("conf.d/1.conf"), "external_pid_file = '/source/pid'\n").unwrap();
    fs::write(data.join("conf.d/2.txt"), "hba_file = '/source/hba'\n").unwrap();
    let read = read(&data, &Settings::new()).unwrap();
    let found = judge(&read, &Bounds::new(&places(&data), &Adoption::default()));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("conf.d/1.conf line 1: external_pid_file"), "{found:?}");
}
