//! Settings are written as PostgreSQL reads them, once.

use super::*;

#[test]
fn values_are_written_in_units_that_postgresql_reads() {
    let shown = |value: Value| value.to_string();
    assert_eq!(shown(true.into()), "on");
    assert_eq!(shown(Value::Bytes(256 << 20)), "256MB");
    assert_eq!(shown(Value::Bytes(3 << 30)), "3GB");
    assert_eq!(shown(Value::Bytes(8192)), "8kB");
    assert_eq!(shown(Value::Bytes(1000)), "1000B");
    assert_eq!(shown(Value::Bytes(0)), "0B");
    assert_eq!(shown(Duration::from_secs(300).into()), "300s");
    assert_eq!(shown(Duration::from_millis(1500).into()), "1500ms");
    assert_eq!(shown(Duration::from_micros(1501).into()), "1501us");
    assert_eq!(shown(1.1.into()), "1.1");
}

#[test]
fn a_name_is_set_once_and_quotes_stay_inside() {
    let settings = Settings::new().with("a", 1).with("b.c", r"it's C:\d").with("a", 2);
    let text = settings.text().unwrap();
    let lines: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(lines, ["a = '2'", r"b.c = 'it''s C:\\d'"]);
    assert_eq!(settings.get("a"), Some(&Value::Integer(2)));
}

#[test]
fn what_would_break_the_file_or_have_no_effect_is_refused() {
    for settings in [
        Settings::new().with("a b", 1),
        Settings::new().with("", 1),
        Settings::new().with("a", "x\nfsync = off"),
        Settings::new().with("port", 5433),
    ] {
        assert!(settings.text().is_err(), "{settings:?}");
    }
}

#[test]
fn the_server_file_includes_ours_once() {
    let directory = tempfile::tempdir().unwrap();
    let server = directory.path().join(SERVER_FILE);
    fs::write(&server, "#port = 5432").unwrap();
    for shared in [128 << 20, 256 << 20] {
        Settings::new().with("shared_buffers", Value::Bytes(shared)).write(directory.path(), None).unwrap();
    }
    assert_eq!(fs::read_to_string(&server).unwrap(), "#port = 5432\ninclude 'ashlar.conf'\n");
    let ours = fs::read_to_string(directory.path().join(SETTINGS_FILE)).unwrap();
    assert!(ours.contains("256MB") && !ours.contains("128MB"), "{ours}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2, "nothing else is left");
}
