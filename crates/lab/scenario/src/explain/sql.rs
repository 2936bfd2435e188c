//! What is asked of a database, as it is typed: by the rerun on PostgreSQL, and by the paper on SQL Server.

use crate::file::Scenario;
use crate::plan::Plan;
use crate::workload::Load;

use super::Page;

/// What one kind of transaction asks of PostgreSQL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SqlOfKind {
    /// As results call it.
    pub kind: String,
    /// As they are sent.
    pub statements: Vec<String>,
}

/// What a load asks of PostgreSQL: this crate knows no workload, so whoever calls it tells.
pub type SqlOf<'a> = &'a dyn Fn(&Load) -> Vec<SqlOfKind>;

/// Before each line, which keeps it from being taken for a sentence.
const INDENT: &str = "  ";

impl Page {
    /// The statements of the first variant that has them, and of each that has others.
    pub(super) fn sql(&mut self, planned: &Plan, sql_of: SqlOf<'_>) {
        let mut shown: Vec<String> = Vec::new();
        for variant in &planned.variants {
            let text: String = sql_of(&variant.load).iter().map(kind).collect();
            if !text.is_empty() && !shown.contains(&text) {
                self.heading(&format!("The SQL that the rerun sends to PostgreSQL: {}", variant.name));
                self.0 += &text;
                shown.push(text);
            }
        }
    }

    /// The paper's steps on SQL Server.
    pub(super) fn tsql(&mut self, scenario: &Scenario) {
        if scenario.tsql.is_empty() {
            return;
        }
        self.heading("The paper's steps on SQL Server (T-SQL; shown, and not run here)");
        for of in &scenario.tsql {
            // Procedures begin a batch, and variables end with it.
            self.0 += &format!("{INDENT}-- {}\n{}{INDENT}GO\n", of.step, lines(&of.text, ""));
        }
    }
}

fn kind(of: &SqlOfKind) -> String {
    let statements: String = of.statements.iter().map(|statement| lines(statement, ";")).collect();
    format!("{INDENT}-- {}\n{statements}", of.kind)
}

/// Indented alike, whatever the depth of the code or file that they stand in.
fn lines(text: &str, end: &str) -> String {
    let mut rest = text.trim_end().lines();
    let first = rest.next().unwrap_or_default();
    let depth = |line: &str| line.len() - line.trim_start().len();
    let least = rest.clone().filter(|line| !line.trim().is_empty()).map(depth).min().unwrap_or(0);
    // What goes on behind a first line without depth stands a step further in.
    let step = if least > depth(first) { INDENT } else { "" };
    let mut all = format!("{INDENT}{}", first.trim_start());
    for line in rest {
        all = format!("{all}\n{INDENT}{step}{}", line.get(least..).unwrap_or_default())
            .trim_end_matches(' ')
            .into();
    }
    format!("{all}{end}\n")
}

#[cfg(test)]
mod tests {
    use super::lines;

    #[test]
    fn lines_keep_their_depth_against_each_other() {
        let text = "UPDATE a SET b = 1\n                 FROM c\n                    WHERE d";
        assert_eq!(lines(text, ";"), "  UPDATE a SET b = 1\n    FROM c\n       WHERE d;\n");
        assert_eq!(lines("BEGIN\n  x\nEND\n", ""), "  BEGIN\n    x\n  END\n");
        assert_eq!(lines("a\n\n  b\n", ""), "  a\n\n    b\n");
    }
}
