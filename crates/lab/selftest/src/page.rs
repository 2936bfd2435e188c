//! What was found, for a browser, for a terminal, and for whoever runs tests.

use std::fmt::Write as _;

use ashlar_report::{Mark, Page, escaped};

use crate::{Answer, ID, Selftest};

impl Selftest {
    /// In one sentence.
    #[must_use]
    pub fn headline(&self) -> String {
        let of = |wanted| self.steps.iter().filter(|step| step.answer == wanted).count();
        let (all, failed, open) = (self.steps.len(), of(Answer::Failed), of(Answer::CannotTell));
        match (failed, open) {
            (0, 0) => format!("The lab was right about all {all} disks."),
            (0, _) => {
                format!("The lab was right about {} of {all} disks; {open} cannot be told here.", all - open)
            }
            _ => format!(
                "The lab was wrong about {failed} of {all} disks: do not trust what it measures here."
            ),
        }
    }

    /// For a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}\n\n", self.headline());
        for step in &self.steps {
            let (word, name, found) = (word(step.answer), step.name, &step.found);
            let _infallible = writeln!(text, "{word:<12} {name}\n             {found}");
        }
        text
    }

    #[must_use]
    pub fn html(&self) -> String {
        let mut page = Page::new("The lab held against disks that lie");
        page.remark(&format!("{ID}, {:.0} s", self.seconds));
        page.answer(&self.headline());
        for step in &self.steps {
            let mark = match step.answer {
                Answer::Passed => Mark::Good,
                Answer::Failed => Mark::Bad,
                Answer::CannotTell => Mark::Warning,
            };
            let meaning = format!("{}. Found: {}.", step.rule, step.found);
            page.finding(mark, word(step.answer), step.name, "", &meaning);
        }
        page.finish()
    }

    /// A test case for each disk; what cannot be told is an error.
    #[must_use]
    pub fn junit(&self) -> String {
        let mut text = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"{ID}\" tests=\"{}\">\n",
            self.steps.len()
        );
        for step in &self.steps {
            let (name, found) = (escaped(step.name), escaped(&step.found));
            let case = format!("  <testcase classname=\"{ID}\" name=\"{name}\" time=\"{:.1}\"", step.seconds);
            let _infallible = match step.answer {
                Answer::Passed => writeln!(text, "{case}/>"),
                Answer::Failed => writeln!(text, "{case}><failure message=\"{found}\"/></testcase>"),
                Answer::CannotTell => writeln!(text, "{case}><error message=\"{found}\"/></testcase>"),
            };
        }
        text + "</testsuite>\n"
    }
}

fn word(answer: Answer) -> &'static str {
    match answer {
        Answer::Passed => "passed",
        Answer::Failed => "failed",
        Answer::CannotTell => "cannot tell",
    }
}
