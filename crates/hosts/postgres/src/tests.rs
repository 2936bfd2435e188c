//! Small readings: accounts, versions, lock files, addresses of memory.

use std::path::Path;

use crate::account::account_in;
use crate::installation::version_in;
use crate::leftovers::{is_unused, segment_in, shared_files};

#[test]
fn an_account_is_found_by_its_whole_name() {
    let passwd = "root:x:0:0::/:/bin/sh\npostgresql:x:7:7::/:\npostgres:x:101:104::/:/bin/sh\n";
    let account = account_in(passwd, "postgres").unwrap();
    assert_eq!((account.user, account.group), (101, 104));
    assert_eq!(account_in(passwd, "nobody"), None);
}

#[test]
fn the_version_is_the_third_word() {
    assert_eq!(version_in("postgres (PostgreSQL) 15.6 (Debian 15.6-0+deb12u1)"), "15.6");
    assert_eq!(version_in(""), "?");
}

#[test]
fn shared_memory_of_a_dead_server_is_found_and_that_of_a_living_one_is_left() {
    let lock = "612\n/data\n1700000000\n5432\n/run\n\n 10223734    196645\nready   \n";
    assert_eq!(segment_in(lock), Some(("10223734".into(), "196645".into())));
    assert_eq!(segment_in("612\n/data\n"), None);
    let line = |nattch| {
        format!("  key shmid perms size cpid lpid nattch\n  10223734 196645 600 56 1 1 {nattch} 0 0")
    };
    assert!(is_unused(&line(0), "10223734", "196645"));
    assert!(!is_unused(&line(2), "10223734", "196645"), "somebody is attached");
    assert!(!is_unused(&line(0), "10223735", "196645"), "the number was given to another");
    assert!(is_unused(" -2 7 600 56 1 1 0", "4294967294", "7"), "the table shows keys with a sign");
    let maps = "7f00-7f01 rw-s 0 00:18 2 /dev/shm/PostgreSQL.123 (deleted)\n7f02-7f03 r--p 0 0 1 /lib/x\n";
    assert_eq!(shared_files(maps), [Path::new("/dev/shm/PostgreSQL.123")]);
}
