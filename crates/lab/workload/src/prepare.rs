//! Statements of a workload, taken by a session that runs them or by a list that shows them.

use ashlar_postgres::{Session, Statement};

use crate::error::Result;

/// Takes the statements of a workload, each once, before any of them is run.
pub(crate) trait Prepare {
    /// What a statement becomes.
    type Statement;

    /// # Errors
    /// When the server refuses it or does not answer.
    fn prepare(&mut self, text: &str) -> Result<Self::Statement>;

    /// What comes next belongs to this kind of transaction.
    fn of(&mut self, _kind: &'static str) -> &mut Self {
        self
    }
}

impl Prepare for Session {
    type Statement = Statement;

    fn prepare(&mut self, text: &str) -> Result<Statement> {
        Ok(Session::prepare(self, text)?)
    }
}

/// What a kind of transaction asks of the server: SQL as it is sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// As results call it.
    pub kind: &'static str,
    /// In the order in which they are prepared, which is about the one in which they are run.
    pub statements: Vec<String>,
}

impl Listed {
    pub(crate) fn new(kind: &'static str, statements: Vec<String>) -> Listed {
        Listed { kind, statements }
    }
}

/// Keeps the text of each statement, and asks no server.
#[derive(Default)]
pub(crate) struct List(pub(crate) Vec<Listed>);

impl Prepare for List {
    type Statement = ();

    fn prepare(&mut self, text: &str) -> Result<()> {
        let listed = self.0.last_mut().expect("a list is told the kind first");
        listed.statements.push(text.to_string());
        Ok(())
    }

    fn of(&mut self, kind: &'static str) -> &mut List {
        self.0.push(Listed::new(kind, Vec::new()));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{Call, Job};
    use crate::{broker, factload, orders, points, rows};

    fn kinds(listed: &[Listed]) -> Vec<&str> {
        listed.iter().map(|listed| listed.kind).collect()
    }

    #[test]
    fn every_kind_of_a_workload_is_listed_with_statements() {
        let all = [
            (orders::statements(&orders::Settings::new(1)), &orders::KINDS[..]),
            (broker::statements(), &broker::KINDS[..]),
            (points::statements(&points::Settings::mixed_sizes()), &points::KINDS[..]),
            (factload::statements(), &factload::KINDS[..]),
        ];
        for (listed, expected) in all {
            assert_eq!(kinds(&listed), expected);
            assert!(listed.iter().all(|listed| !listed.statements.is_empty()), "{listed:?}");
        }
        assert_eq!(
            kinds(&rows::statements(Job::Change, Call::Statements, 9)),
            ["update", "select", "delete"]
        );
        assert_eq!(kinds(&points::statements(&points::Settings::single_keys())), ["keys"]);
    }

    #[test]
    fn rows_are_locked_where_the_isolation_asks_for_it() {
        let locks = |isolation| {
            let settings = orders::Settings { isolation, ..orders::Settings::new(1) };
            let all: Vec<String> =
                orders::statements(&settings).into_iter().flat_map(|listed| listed.statements).collect();
            all.iter().filter(|text| text.contains("FOR UPDATE")).count()
        };
        assert!(locks(orders::Isolation::ReadCommitted) > locks(orders::Isolation::Serializable));
    }
}
