//! The SQL that a run sends to PostgreSQL, as the workloads themselves have it.
//!
//! The room of scenarios knows no workload: whoever explains an experiment asks here.

use ashlar_scenario::{DatabaseLoad, Load, Origin, SqlOfKind, Tables};
use ashlar_workload::{Listed, broker, factload, orders};

use crate::{database, space};

/// What a load asks of a server, kind by kind; nothing where there is none.
#[must_use]
pub fn sql(load: &Load) -> Vec<SqlOfKind> {
    let kind = |listed: Listed| SqlOfKind { kind: listed.kind.to_string(), statements: listed.statements };
    match load {
        Load::Io(_) | Load::Restore(_) | Load::Bill(_) => Vec::new(),
        Load::Database(load) => statements(load).into_iter().map(kind).collect(),
        Load::Several(_) => broker::statements().into_iter().map(kind).collect(),
        Load::Space(load) if load.origin == Origin::Changed => {
            vec![SqlOfKind {
                kind: "change of a twin".into(),
                statements: vec![space::change_statements(load.change)],
            }]
        }
        Load::Space(_) => Vec::new(),
    }
}

fn statements(load: &DatabaseLoad) -> Vec<Listed> {
    match load.base.tables {
        // The seed is of what is drawn, and in no statement.
        Tables::Orders { .. } => orders::statements(&orders::Settings::new(0)),
        Tables::Broker { .. } => broker::statements(),
        Tables::Facts { .. } => factload::statements(),
        Tables::Points { .. } => database::points_sql(load.has_ranges),
        Tables::Mixed { .. } => {
            let has_ranges = load.mixed.as_ref().is_some_and(|work| work.has_ranges);
            [database::points_sql(has_ranges), factload::statements()].concat()
        }
        Tables::Rows { rows, .. } => load.work.map_or_else(Vec::new, |work| database::rows_sql(work, rows)),
    }
}

#[cfg(test)]
mod tests {
    use ashlar_scenario::{Machine, Preset, Request, Target, load, plan};
    use ashlar_units::ByteCount;

    use super::*;

    /// Of the first variant.
    fn kinds(id: &str) -> Vec<String> {
        let targets = [Target::any()];
        let machine = Machine { cores: 2, memory: ByteCount(8 << 30), bytes_per_second: ByteCount(1 << 28) };
        let request = Request { preset: Preset::Xs, seed: 0, targets: &targets, machine };
        let plan = plan(&load(id).unwrap(), &request).unwrap();
        sql(&plan.variants[0].load).into_iter().map(|of| of.kind).collect()
    }

    #[test]
    fn each_workload_of_a_database_tells_its_statements() {
        assert_eq!(kinds("fujitsu/in-memory-oltp"), ["update", "select", "delete"]);
        assert_eq!(kinds("kaminario/oltp-query"), ["keys", "range"]);
        assert_eq!(kinds("kaminario/olap-load"), ["from_table", "from_file"]);
        assert_eq!(kinds("kaminario/mixed"), ["keys", "range", "from_table", "from_file"]);
        assert_eq!(kinds("kaminario/oltp-tpcc").len(), 5);
        assert_eq!(kinds("emc/staged-oltp").len(), 11);
        assert!(kinds("emc/headline").is_empty());
    }
}
