//! What a file may say, and how its mistakes are named.

use super::*;

const FILE: &str = r#"
format = 1
id = "test/small"
title = "t"
question = "q"
budget = "2m"
[workload]
kind = "io"
data = "1GB"
outstanding = 4
content = { compress = 2.0 }
[[matrix.test]]
id = "read"
mix = [{ op = "read", pattern = "random", bs = "8k", share = 1.0 }]
[[matrix.test]]
id = "write"
mix = [{ op = "write", pattern = "random", bs = "8k", share = 1.0 }]
[[matrix.depth]]
id = "d1"
outstanding = 1
[phases]
warmup = "1s"
measure = "2s"
repeat = 3
[[check]]
kind = "ratio"
of = "iops.ratio(write/read)"
at_least = 0.5
"#;

fn refusal(old: &str, new: &str) -> String {
    assert!(FILE.contains(old), "the test replaces what is not there: {old}");
    Scenario::parse(&FILE.replacen(old, new, 1)).unwrap_err().to_string()
}

#[test]
fn axes_keep_the_order_of_the_file() {
    let scenario = Scenario::parse(FILE).unwrap();
    let names: Vec<&str> = scenario.matrix.iter().map(|axis| axis.name.as_str()).collect();
    assert_eq!(names, ["test", "depth"]);
}

#[test]
fn unknown_keys_are_named_with_place_and_nearest_key() {
    for (old, new, said) in [
        ("title =", "titel =", "line 4: unknown key `titel`; the nearest known key is `title`"),
        ("repeat =", "repaet =", "line 24: unknown key `repaet`; the nearest known key is `repeat`"),
        ("at_least", "at_lest", "line 25: unknown key `at_lest`; the nearest known key is `at_least`"),
        (
            "outstanding = 4",
            "outstandin = 4",
            "test/small: workload: unknown key `outstandin`; the nearest known key is `outstanding`",
        ),
        (
            "outstanding = 1",
            "outstandin = 1",
            "test/small: matrix entry `d1`: unknown key `outstandin`; the nearest known key is `outstanding`",
        ),
        (
            "bs = \"8k\", share = 1.0 }]\n[[matrix.depth",
            "bs = \"8k\", shar = 1.0 }]\n[[matrix.depth",
            "test/small: matrix entry `write`: unknown key `shar`; the nearest known key is `share`",
        ),
        (
            "compress =",
            "compres =",
            "test/small: workload: unknown key `compres`; the nearest known key is `compress`",
        ),
        (
            "[phases]",
            "usee = \"x\"\n[phases]",
            "test/small: matrix entry `d1`: unknown key `usee`; the nearest known key is `use`",
        ),
        ("kind = \"ratio\"\nof", "kind = \"steady\"\nof", "line 25: unknown key `at_least`"),
        ("budget", "engine = { kind = \"none\", x = 1 }\nbudget", "line 6: unknown key `x`"),
        (
            "\"1GB\"",
            "{ pper = \"1GB\" }",
            "test/small: workload: unknown key `pper`; the nearest known key is `paper` in `data`",
        ),
    ] {
        assert_eq!(refusal(old, new), said);
    }
}

#[test]
fn wrong_values_are_named_with_their_key_or_line() {
    let said = refusal("\"1GB\"", "25");
    assert!(said.starts_with("test/small: workload: 25 without a unit is not a size"), "{said}");
    assert!(said.ends_with("in `data`"), "{said}");
    let said = refusal("measure = \"2s\"", "measure = \"2\"");
    assert!(said.starts_with("line 23: 2 without a unit is not a time"), "{said}");
    assert!(refusal("kind = \"io\"", "kind = \"order\"").contains("kind must be \"io\""));
    assert!(refusal("kind = \"io\"", "").contains("missing field `kind`"));
    assert!(
        refusal("{ compress = 2.0 }", "\"zeros\"").contains("content is \"sqlio\" or a table in `content`")
    );
    assert!(refusal("compress = 2.0", "compress = 2, unique = true, duplicates = 0.1").contains("unique"));
}

#[test]
fn what_does_not_fit_together_is_refused() {
    for (old, new, said) in [
        ("format = 1", "format = 2", "format 2 is unknown"),
        ("test/small", "small", "id is not of the form seed/name"),
        ("\"d1\"", "\"read\"", "`read` is used twice"),
        ("\"d1\"", "\"D 1\"", "not made of a-z"),
        ("write/read", "write/raed", "the matrix has no entry `raed`"),
        ("write/read", "write/d1", "a ratio is of one axis"),
        ("at_least = 0.5", "", "one of at_least, at_most and equal_within"),
        ("at_least = 0.5", "at_least = 0.5\nat_most = 2", "one of at_least"),
        ("iops.ratio(write/read)", "iops", "is not a ratio"),
    ] {
        let refused = refusal(old, new);
        assert!(refused.contains(said), "{refused}");
    }
}
