//! Expansion, order, estimates and cuts.

use super::*;
use crate::workload::IoLoad;

const MACHINE: Machine =
    Machine { cores: 4, memory: ByteCount(8 << 30), bytes_per_second: ByteCount(100_000_000) };

/// Two operations by five depths; a run takes 10 s with its overhead, the data set 10 s.
fn scenario(repeat: u64, budget: &str, rest: &str) -> Scenario {
    let depths = [1, 2, 4, 8, 16]
        .map(|depth| format!("[[matrix.depth]]\nid = \"d{depth}\"\noutstanding = {depth}\n"))
        .concat();
    let tests = ["read", "write"].map(|operation| {
        let part = format!("{{ op = \"{operation}\", pattern = \"random\", bs = \"4k\", share = 1 }}");
        format!("[[matrix.test]]\nid = \"{operation}-4k\"\nmix = [{part}]\n")
    });
    let text = format!(
        "format = 1\nid = \"test/small\"\ntitle = \"t\"\nquestion = \"q\"\nbudget = \"{budget}\"\n\
         workload = {{ kind = \"io\", data = \"1GB\", outstanding = 1, content = {{ compress = 1 }} }}\n\
         phases = {{ warmup = \"3s\", measure = \"6s\", repeat = {repeat} }}\n{}{depths}{rest}",
        tests.concat()
    );
    Scenario::parse(&text).unwrap()
}

fn targets(ids: &[&str]) -> Vec<Target> {
    ids.iter().map(|id| Target::new(*id, format!("/{id}"))).collect()
}

fn planned(scenario: &Scenario, seed: u64) -> Plan {
    let targets = targets(&["ashlar"]);
    plan(scenario, &Request { preset: Preset::S, seed, targets: &targets, machine: MACHINE }).unwrap()
}

#[test]
fn every_repetition_is_a_block_with_every_variant_once_in_its_own_order() {
    let plan = planned(&scenario(3, "1h", ""), 7);
    let blocks: Vec<Vec<usize>> =
        plan.runs.chunks(10).map(|block| block.iter().map(|run| run.variant).collect()).collect();
    assert_eq!(blocks.len(), 3);
    for block in &blocks {
        assert_eq!(block.iter().collect::<BTreeSet<_>>().len(), 10);
    }
    assert!(blocks[0] != blocks[1] && blocks[1] != blocks[2] && blocks[0] != blocks[2], "{blocks:?}");
}

#[test]
fn the_same_seed_gives_the_same_plan_and_another_only_another_order() {
    let scenario = scenario(3, "1h", "");
    let (one, other) = (planned(&scenario, 7), planned(&scenario, 8));
    assert_eq!(one, planned(&scenario, 7));
    assert_ne!(one.runs, other.runs);
    let ids = |plan: &Plan| plan.runs.iter().map(|run| run.id.clone()).collect::<BTreeSet<_>>();
    assert_eq!(ids(&one), ids(&other));
    assert!(ids(&one).contains("r2-write-4k-d16-ashlar"));
}

#[test]
fn estimates_count_runs_data_sets_and_writes() {
    let plan = planned(&scenario(3, "1h", ""), 1);
    assert_eq!(plan.duration, Duration::from_secs(30 * 10 + 10));
    assert_eq!(plan.bytes_stored, ByteCount(1_000_000_000));
    // Half of 30 runs write for 9 s at the machine's speed, and the data set once.
    assert_eq!(plan.bytes_written, ByteCount(15 * 9 * 100_000_000 + 1_000_000_000));
    assert!(plan.cuts.is_empty() && plan.is_within_budget());
}

#[test]
fn repetitions_are_cut_before_entries_and_not_below_three() {
    let plan = planned(&scenario(5, "400s", ""), 1);
    assert_eq!((plan.repeat, plan.variants.len()), (3, 10));
    assert_eq!(plan.cuts.len(), 2);
    assert_eq!(plan.cuts[0], "The whole would take 8 m 30 s; the budget at preset s is 6 m 40 s.");
    assert_eq!(plan.cuts[1], "Repetitions are cut from 5 to 3.");
}

#[test]
fn axes_are_thinned_in_the_middle_and_keep_their_ends() {
    let plan = planned(&scenario(3, "200s", ""), 1);
    assert_eq!((plan.repeat, plan.variants.len()), (3, 6));
    assert_eq!(plan.cuts[1], "Left out of `depth`: d2, d8.");
    assert!(plan.is_within_budget());
}

/// The harm: a result of nine runs, read where runs are taken to be longer, was one of six.
#[test]
fn what_was_run_stays_the_plan_whatever_is_estimated_later() {
    let targets = targets(&["ashlar"]);
    let request = Request { preset: Preset::S, seed: 7, targets: &targets, machine: MACHINE };
    for before in ["1h", "400s", "200s", "20s"] {
        let begun = planned(&scenario(5, before, ""), 7);
        for later in ["1h", "300s", "20s"] {
            let again = plan_as(&scenario(5, later, ""), &request, Some(&begun.kept)).unwrap();
            assert_eq!(
                (&again.runs, &again.variants, &again.cuts),
                (&begun.runs, &begun.variants, &begun.cuts)
            );
            assert_eq!(again.kept, begun.kept);
        }
    }
}

#[test]
fn an_entry_that_a_check_names_stays() {
    let check = "[[check]]\nkind = \"ratio\"\nof = \"iops.ratio(d2/d1)\"\nat_least = 1.5\n";
    let plan = planned(&scenario(3, "200s", check), 1);
    let kept: BTreeSet<&str> = plan.variants.iter().map(|variant| variant.entries[1].as_str()).collect();
    assert_eq!(kept, BTreeSet::from(["d1", "d2", "d16"]));
}

#[test]
fn when_nothing_else_helps_repetitions_go_and_the_rest_is_said() {
    let plan = planned(&scenario(3, "100s", ""), 1);
    assert_eq!((plan.repeat, plan.variants.len()), (2, 4));
    assert!(plan.is_within_budget());
    let plan = planned(&scenario(3, "20s", ""), 1);
    assert_eq!((plan.repeat, plan.variants.len()), (1, 4));
    assert_eq!(plan.cuts.last().unwrap(), "Nothing is left to cut, and it still takes 50 s.");
    assert!(!plan.is_within_budget());
}

#[test]
fn an_entry_may_bring_its_own_target() {
    let rest = "[[matrix.target]]\nid = \"flash\"\nuse = \"@target\"\n\
                [[matrix.target]]\nid = \"hdd\"\nuse = \"sim-hdd:drives=2\"\n";
    let larger = scenario(1, "1h", &format!("{rest}data = \"64TiB\"\n"));
    let scenario = scenario(1, "1h", rest);
    let targets = targets(&["ashlar", "plain"]);
    let request = Request { preset: Preset::S, seed: 1, targets: &targets, machine: MACHINE };
    let plan = plan(&scenario, &request).unwrap();
    let names: Vec<&str> = plan.variants.iter().take(3).map(|variant| variant.name.as_str()).collect();
    assert_eq!(names, ["read-4k-d1-flash-ashlar", "read-4k-d1-flash-plain", "read-4k-d1-hdd"]);
    assert_eq!(plan.variants[2].target, Target::new("hdd", "sim-hdd:drives=2"));
    // It stores nothing, and takes a moment whatever its data are.
    let larger = super::plan(&larger, &request).unwrap();
    assert_eq!((larger.duration, larger.bytes_stored), (plan.duration, plan.bytes_stored));
    assert_eq!(plan.bytes_stored, ByteCount(2_000_000_000));
}

#[test]
fn requests_without_sense_are_refused() {
    let scenario = scenario(3, "1h", "");
    for ids in [&[][..], &["a", "a"], &["A/b"]] {
        let targets = targets(ids);
        let request = Request { preset: Preset::S, seed: 1, targets: &targets, machine: MACHINE };
        assert_eq!(plan(&scenario, &request).unwrap_err().kind, crate::ErrorKind::Request, "{ids:?}");
    }
}

#[test]
fn overrides_and_invariants_reach_the_load() {
    let plan = planned(&scenario(1, "1h", "threads = { invariant = \"cores/2\" }\nrate = \"500/s\"\n"), 1);
    let Some(IoLoad { outstanding, threads, rate, .. }) = plan.variants[4].load.io() else {
        panic!("a workload of I/O")
    };
    assert_eq!((*outstanding, *threads, *rate), (16, 2, Some(crate::Rate(500.0))));
    let Some(first) = plan.variants[0].load.io() else { panic!("a workload of I/O") };
    assert_eq!((first.outstanding, first.threads, first.rate), (1, 1, None));
}

const LOADS: &str = "[[matrix.load]]\nid = \"o50\"\nrate = \"50% of max\"\n[[matrix.load]]\nid = \"max\"\n";

#[test]
fn what_others_have_a_share_of_comes_first_in_every_repetition() {
    let plan = planned(&scenario(3, "1h", LOADS), 7);
    for block in plan.runs.chunks(20) {
        let is_share = |run: &Run| plan.variants[run.variant].load.share().is_some();
        let first = block.iter().position(is_share).unwrap();
        assert!(first == 10 && block[10..].iter().all(is_share));
    }
    for (at, variant) in plan.variants.iter().enumerate() {
        let base = base_of(&plan.variants, at).map(|base| plan.variants[base].name.replace("-max", "-o50"));
        assert_eq!(base, variant.load.share().map(|_| variant.name.clone()));
    }
}

#[test]
fn a_share_of_what_is_not_there_is_refused_and_its_base_is_never_cut() {
    let of = |loads: &str, budget: &str| {
        let scenario = scenario(3, budget, loads);
        let targets = targets(&["ashlar"]);
        plan(&scenario, &Request { preset: Preset::S, seed: 1, targets: &targets, machine: MACHINE })
    };
    let error = of(&LOADS.replace("of max", "of most"), "1h").unwrap_err();
    assert!(error.to_string().contains("a share of `most`"), "{error}");
    // An entry of another axis, and one that is a share itself.
    assert!(of(&LOADS.replace("of max", "of d1"), "1h").is_err());
    assert!(of(&LOADS.replace("of max", "of o50"), "1h").is_err());
    let middle = "[[matrix.load]]\nid = \"o50\"\nrate = \"50% of max\"\n[[matrix.load]]\nid = \"max\"\n\
                  [[matrix.load]]\nid = \"o10\"\nrate = \"10% of max\"\n";
    let cut = of(middle, "1m").unwrap();
    assert!(
        cut.variants.iter().any(|variant| variant.entries.contains(&"max".to_string())),
        "{:?}",
        cut.cuts
    );
}

fn of_catalogue(id: &str, targets: &[Target], cores: u64) -> Plan {
    let machine = Machine { cores, ..MACHINE };
    let scenario = crate::catalogue::load(id).unwrap();
    plan(&scenario, &Request { preset: Preset::Xs, seed: 1, targets, machine }).unwrap()
}

fn names(plan: &Plan) -> Vec<&str> {
    plan.variants.iter().map(|variant| variant.name.as_str()).collect()
}

#[test]
fn parts_of_a_layout_come_from_several_axes_and_what_no_volume_takes_is_left_out() {
    let plan = of_catalogue("fujitsu/block-and-au", &targets(&["a"]), 4);
    assert_eq!(plan.variants.len(), 2 * 2 * 3 + 2 * 3);
    let blocks = |variant: &Variant| {
        let layout = &variant.load.io().unwrap().set.layout;
        (layout.block.unwrap().0, layout.cluster.unwrap().0)
    };
    let of = |name: &str| plan.variants.iter().find(|variant| variant.name == name).map(blocks);
    assert_eq!(of("read-b512-au64-a"), Some((512, 64 << 10)));
    assert_eq!(of("write-b4096-au4-a"), Some((4096, 4096)));
    assert_eq!(of("write-512-b4096-au4-a"), None);
    let left_out = "Left out, because a volume with blocks of 4096 bytes takes no such requests: \
                    write-512-b4096-au4, ";
    assert!(plan.cuts.iter().any(|cut| cut.starts_with(left_out)), "{:?}", plan.cuts);
}

#[test]
fn a_server_has_no_more_processors_than_the_machine() {
    let plan = of_catalogue("fujitsu/server-scaling", &targets(&["a"]), 2);
    assert_eq!(names(&plan), ["c1-a", "c2-a"]);
    assert_eq!(plan.cuts, ["Left out, because this machine has 2 processors: c4."]);
    assert_eq!(of_catalogue("fujitsu/server-scaling", &targets(&["a"]), 4).variants.len(), 3);
}

#[test]
fn what_lies_over_each_directory_has_its_place_in_its_name() {
    let mut both = targets(&["a", "b"]);
    let plan = of_catalogue("fujitsu/buffer-pool-extension", &both, 2);
    let over: Vec<_> =
        plan.variants.iter().filter(|variant| variant.entries == ["p2-2"]).map(|it| &it.target).collect();
    assert_eq!(over.len(), 2);
    assert_eq!((over[1].id.as_str(), over[1].address.as_str()), ("p2-2-b", "sim-flash:size=64GiB over /b"));
    both.truncate(1);
    both[0].address = "ashlar:main".to_string();
    let plan = of_catalogue("fujitsu/buffer-pool-extension", &both, 2);
    assert_eq!(names(&plan), ["p1-1", "p1-2", "p2-1-a", "p3-a"]);
    assert_eq!(plan.cuts, ["Left out, because only a directory holds what is in front of it: p2-2."]);
}

#[test]
fn a_pattern_of_rows_has_its_own_buffers_and_durability() {
    let plan = of_catalogue("fujitsu/in-memory-oltp", &targets(&["a"]), 2);
    let base = |name: &str| {
        let variant = plan.variants.iter().find(|variant| variant.name == name).unwrap();
        let Load::Database(load) = &variant.load else { panic!("{name} has no database") };
        load.base.clone()
    };
    let (disk, fast, safe) = (base("p1-a"), base("p2-1-a"), base("p2-2-a"));
    let data = disk.tables.size_bytes();
    assert_eq!(disk.settings["shared_buffers"], format!("{}kB", (data / 3) >> 10));
    assert_eq!(fast.settings["shared_buffers"], format!("{}kB", (3 * data) >> 10));
    assert!(disk.memory.unwrap().0 < fast.memory.unwrap().0 && fast.memory == safe.memory);
    assert_eq!(fast.settings.get("synchronous_commit").map(String::as_str), Some("off"));
    assert_eq!(safe.settings.get("synchronous_commit"), None);
    assert!(base("p3-1-a") == fast && base("p3-2-a") == safe, "they share what is loaded");
}

#[test]
fn a_log_lies_apart_where_the_file_or_the_user_says_so() {
    let text = |engine: &str, roles: &str| {
        format!(
            "format = 1\nid = \"test/log\"\ntitle = \"t\"\nquestion = \"q\"\nbudget = \"1h\"\n{roles}\
             engine = {{ kind = \"{engine}\" }}\nphases = {{ warmup = \"1s\", measure = \"1s\", repeat = 1 }}\n\
             workload = {{ kind = \"points\", data = \"1MB\", users = 1 }}\n\
             [[matrix.place]]\nid = \"here\"\n\
             [[matrix.place]]\nid = \"drives\"\nuse = \"sim-hdd:drives=2,raid=1 over @target\"\n"
        )
    };
    let logs = |roles: &str, log: Option<&str>, address: &str| {
        let scenario = Scenario::parse(&text("postgres", roles)).unwrap();
        let log = log.map(str::to_string);
        let targets = [Target { log, ..Target::new("data", address) }];
        let request = Request { preset: Preset::S, seed: 1, targets: &targets, machine: MACHINE };
        let planned = plan(&scenario, &request).unwrap();
        planned.variants.into_iter().map(|variant| variant.log).collect::<Vec<_>>()
    };
    let apart = "roles = { log = \"apart\" }\n";
    let named = |log: &str| Some(log.to_string());
    assert_eq!(logs("", None, "/data"), [None, None]);
    assert_eq!(logs(apart, None, "/data")[0], named("/data"));
    assert_eq!(
        logs(apart, None, "/data")[1],
        named("sim-hdd:drives=2,raid=1 over /data"),
        "on the same drives"
    );
    assert_eq!(logs(apart, Some("/log"), "/data"), [named("/log"), named("/log")], "the user goes first");
    assert_eq!(logs("", Some("/log"), "postgres://db")[0], None, "a server that is there has its own");
    let refused = Scenario::parse(&text("none", apart)).unwrap_err().to_string();
    assert!(refused.contains("a log apart is that of a database"), "{refused}");
}
