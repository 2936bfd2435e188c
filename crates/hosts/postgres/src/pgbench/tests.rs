//! pgbench's command line, its logs and its report are read and written as it does.

use std::time::UNIX_EPOCH;

use super::*;

#[test]
fn a_pgbench_log_gives_rate_and_percentile() {
    let mut text = String::new();
    for second in 0..100 {
        let latency = if second == 99 { 900_000 } else { 1_000 };
        text.push_str(&format!("0 {second} {latency} 0 {} 0\n", 1000 + second));
    }
    text.push_str("3 17 25");
    let load = LoadLog::of(&text).load();
    assert_eq!((load.transactions, load.p99), (100, Duration::from_micros(900_000)));
    assert!((load.tps - 1.01).abs() < 0.01, "{}", load.tps);
    assert_eq!(LoadLog::of("").load().transactions, 0);
}

#[test]
fn a_part_of_a_load_counts_what_ended_in_it() {
    let text: String = (0..100).map(|second| format!("0 {second} 1000 0 {} 0\n", 1000 + second)).collect();
    let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
    let log = LoadLog::of(&text);
    let load = log.within(Window::new(at(1010), at(1030)));
    assert_eq!((load.transactions, load.tps), (20, 1.0));
    assert_eq!(log.within(Window::new(at(0), at(1000))).transactions, 0);
}

#[test]
fn a_log_with_a_schedule_is_read_and_failures_are_not_counted() {
    let log = LoadLog::of("0 1 1000 0 10 0 250\n0 2 failed 0 11 0 250 1\n0 3 1000 0 12 0 250\n");
    assert_eq!(log.load().transactions, 2);
}

#[test]
fn only_the_logs_of_this_load_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let put = |name: &str| std::fs::write(directory.path().join(name), "0 1 1000 0 10 0\n").unwrap();
    ["load.4711", "load.4711.1", "loading.4711", "load.json"].into_iter().for_each(put);
    let log = LoadLog::read(&directory.path().join("load")).unwrap();
    assert_eq!(log.load().transactions, 2);
}

#[test]
fn the_report_of_every_version_is_read() {
    let fifteen = "pgbench (15.6)\ntransaction type: <builtin: TPC-B (sort of)>\nscaling factor: 1\n\
        number of transactions actually processed: 1234\nnumber of failed transactions: 3 (0.243%)\n\
        latency average = 1.621 ms\nlatency stddev = 0.504 ms\ninitial connection time = 3.213 ms\n\
        tps = 1230.125 (without initial connection time)\n";
    let said = "pgbench: starting\nprogress: 1.0 s, 600.0 tps, lat 1.500 ms stddev 0.400, 3 failed\n\
        progress: 2.0 s, 0.0 tps, lat NaN ms stddev NaN, 0 failed, lag 0.100 ms\n";
    let report = LoadReport::parse(fifteen, said).unwrap();
    assert_eq!((report.transactions, report.failed, report.tps), (1234, 3, 1230.125));
    assert_eq!((report.latency_mean_millis, report.latency_deviation_millis), (1.621, Some(0.504)));
    assert_eq!(report.progress.len(), 2);
    assert_eq!((report.progress[0].tps, report.progress[0].failed), (600.0, 3));
    assert_eq!(report.progress[1].latency_mean_millis, None);

    let fourteen = "number of transactions actually processed: 10/10\nlatency average = 1.6 ms\n\
        tps = 12.5 (without initial connection time)\n";
    let report =
        LoadReport::parse(fourteen, "progress: 1.0 s, 10.0 tps, lat 1.500 ms stddev 0.400\n").unwrap();
    assert_eq!((report.transactions, report.failed, report.latency_deviation_millis), (10, 0, None));
    assert_eq!(report.progress[0].failed, 0);
    assert!(LoadReport::parse("pgbench (15.6)\n", "").is_err(), "it ended early");
}

#[test]
fn a_load_is_told_as_pgbench_reads_it() {
    let mut load = Pgbench::new(16, 2, Amount::Time(Duration::from_secs(30)));
    assert_eq!(load.arguments().join(" "), "-n -c 16 -j 2 -T 30 postgres");
    load.scripts = vec![Script { path: "/a b.sql".into(), weight: 3 }];
    load.variables = vec![("size".into(), "10".into())];
    load.rate = Some(100.5);
    load.protocol = Protocol::Prepared;
    load.progress = Some(Duration::from_secs(1));
    load.log_prefix = Some("/logs/load".into());
    load.seed = Some(7);
    load.amount = Amount::Transactions(5);
    let words = load.arguments();
    assert!(words.contains(&"/a b.sql@3".to_string()), "{words:?}");
    let rest: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.starts_with("/a")).collect();
    assert_eq!(
        rest.join(" "),
        "-n -c 16 -j 2 -t 5 -f -D size=10 -M prepared -R 100.5 -P 1 --log-prefix /logs/load -l \
         --random-seed=7 postgres"
    );
}

#[test]
fn balances_agree_only_when_all_four_do() {
    let of = |sums: [&str; 4]| {
        let [accounts, tellers, branches, history] = sums.map(str::to_string);
        Balances { accounts, tellers, branches, history, transactions: 1 }
    };
    assert!(of(["-5"; 4]).agree());
    for odd in 0..4 {
        let mut sums = ["-5"; 4];
        sums[odd] = "6";
        assert!(!of(sums).agree(), "{odd}");
    }
}
