//! Opens a page in a real browser that has no network.

use std::path::Path;
use std::process::{Command, Stdio};

/// Addresses that the browser asks for by itself, whatever it shows.
const OF_BROWSER: [&str; 3] = ["google.com", "googleapis.com", "gvt1.com"];

/// Whether Chromium is installed; told where it is not.
pub fn has_browser() -> bool {
    super::has_program("chromium")
}

/// What is wrong with a page: what it said in the browser's console, and whom it asked for more.
pub fn complaints(page: &Path) -> Vec<String> {
    let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
    let (asked, picture) = (scratch.path().join("net.json"), scratch.path().join("page.png"));
    let mut command = Command::new("unshare");
    command.args(["--net", "timeout", "60", "chromium", "--headless", "--no-sandbox", "--disable-gpu"]);
    command.args(["--disable-background-networking", "--no-first-run", "--enable-logging=stderr"]);
    command.arg(format!("--user-data-dir={}", scratch.path().join("profile").display()));
    command.arg(format!("--log-net-log={}", asked.display()));
    command.arg(format!("--screenshot={}", picture.display())).arg("--window-size=1280,1000");
    command.arg(format!("file://{}", page.display())).stdin(Stdio::null());
    let ended = command.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success() && picture.is_file(), "{}: {said}", page.display());
    let mut wrong: Vec<String> =
        said.lines().filter(|line| line.contains(":CONSOLE")).map(Into::into).collect();
    let log = std::fs::read_to_string(&asked).unwrap();
    assert!(log.contains(&format!("file://{}", page.display())), "the browser tells what it asks for");
    let addresses = log.split("\"url\":\"").skip(1).filter_map(|rest| rest.split('"').next());
    let host = |address: &str| address.split('/').nth(2).unwrap_or_default().to_string();
    let is_own = |address: &&str| OF_BROWSER.iter().any(|end| host(address).ends_with(end));
    wrong.extend(addresses.filter(|one| one.starts_with("http") && !is_own(one)).map(Into::into));
    wrong
}
