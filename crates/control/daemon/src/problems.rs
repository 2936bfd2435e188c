//! The page of problems: every kind with its status, what it means and what to do.

use std::fmt::Write;

use ashlar_api::{ErrorKind, Reason};

use crate::error::Error;

/// The page as `docs/reference/errors.md` holds it, and as the array answers it at the path that the `type`
/// of a problem names.
#[must_use]
pub fn problems_reference() -> String {
    let mut text = String::from(
        "# Problems\n\n\
         Generated from the program by `ashlar reference`; do not edit.\n\n\
         Every answer of the API that is no success is a problem (RFC 9457), as `application/problem+json`:\n\n",
    );
    writeln!(text, "```json\n{}\n```\n", example()).expect("writing to a string cannot fail");
    text.push_str(
        "| member | |\n| --- | --- |\n\
         | `type` | where the kind is described: this page, which the array answers itself. The same for every \
         problem of the kind |\n\
         | `title` | the kind in words |\n\
         | `status` | the HTTP status |\n\
         | `detail` | what went wrong, with which object, and why: for people |\n\
         | `kind` | what a program acts on: a word of the table below |\n\
         | `object` | kind and name of the object that is meant, where there is one |\n\
         | `reason` | what exactly, where programs do different things about it: a word of the last table |\n\
         | `remedy` | what to do: `command` says it for the command line, `request` with requests and fields |\n\n\
         The command line prints `detail` and the remedy's `command` as one line on stderr and exits with 1.\n\
         `docs/reference/messages.md` of the sources has every message with its remedy.\n\n\
         | kind | status | |\n| --- | --- | --- |\n",
    );
    for kind in ErrorKind::ALL {
        let (name, status, title) = (kind.name(), kind.http_status(), kind.title());
        writeln!(text, "| [`{name}`](#{name}) | {status} | {title} |")
            .expect("writing to a string cannot fail");
    }
    for kind in ErrorKind::ALL {
        describe(kind, &mut text);
    }
    text.push_str(
        "\n## Reasons\n\nMore may come: a program treats one that it does not know as none.\n\n\
         | reason | of kind | |\n| --- | --- | --- |\n",
    );
    for reason in Reason::ALL {
        let (kind, meaning) = reason.about();
        let word = serde_json::to_value(reason).expect("reasons are plain data");
        let (word, kind) = (word.as_str().unwrap_or_default(), kind.name());
        writeln!(text, "| `{word}` | `{kind}` | {meaning} |").expect("writing to a string cannot fail");
    }
    text
}

fn describe(kind: ErrorKind, text: &mut String) {
    let (name, status) = (kind.name(), kind.http_status());
    let (title, meaning, remedy) = (kind.title(), kind.meaning(), kind.remedy());
    writeln!(text, "\n## {name}\n\n{status}. {title}.\n\n{meaning}\n\n{remedy}")
        .expect("writing to a string cannot fail");
}

/// A problem as it is answered.
fn example() -> String {
    let problem = Error::not_found("volume", "db").problem();
    serde_json::to_string_pretty(&problem).expect("problems are plain data")
}

#[cfg(test)]
pub(crate) mod messages;
