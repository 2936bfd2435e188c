//! The one error of this crate, and how a mistake in a file is put into words.

use ashlar_report::nearest;
use std::fmt;

/// What went wrong with a scenario, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    pub kind: ErrorKind,
    pub context: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// The scenario file is wrong: mend the place that the context names.
    File,
    /// The file has no value for this preset: add one, or take another preset.
    Preset,
    /// The caller asked for what does not exist: mend the command.
    Request,
}

pub type Result<T> = std::result::Result<T, Error>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)
    }
}

impl std::error::Error for Error {}

impl Error {
    pub(crate) fn file(context: impl Into<String>) -> Error {
        Error { kind: ErrorKind::File, context: context.into() }
    }

    pub(crate) fn request(context: impl Into<String>) -> Error {
        Error { kind: ErrorKind::Request, context: context.into() }
    }

    /// The same error with the place in front.
    pub(crate) fn within(self, place: &str) -> Error {
        Error { kind: self.kind, context: format!("{place}: {}", self.context) }
    }

    /// An error of the parser over the whole text; it knows the line.
    pub(crate) fn from_text(error: &toml::de::Error, text: &str) -> Error {
        let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
        let message = in_our_words(error.message(), &[]);
        Error::file(format!("line {line}: {message}"))
    }
}

/// The key that serde calls an unknown field, if that is what the message says.
pub(crate) fn unknown_key(message: &str) -> Option<&str> {
    message.strip_prefix("unknown field `")?.split('`').next()
}

/// The parser's message; for an unknown key with the nearest of those that serde, or the caller, knows.
pub(crate) fn in_our_words(message: &str, also_known: &[&str]) -> String {
    let Some(key) = unknown_key(message) else {
        return message.trim_end().replace('\n', " ");
    };
    // serde lists what it expected in backticks, behind the key itself: every second piece is a name.
    let expected = message.split('`').skip(3).step_by(2);
    unknown_key_text(key, expected.chain(also_known.iter().copied()))
}

pub(crate) fn unknown_key_text<'a>(key: &str, known: impl Iterator<Item = &'a str>) -> String {
    match nearest(key, known) {
        Some(near) => format!("unknown key `{key}`; the nearest known key is `{near}`"),
        None => format!("unknown key `{key}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_key_is_named_with_its_nearest() {
        let message = "unknown field `figurs`, expected one of `paper`, `figures`, `tables`";
        assert_eq!(in_our_words(message, &[]), "unknown key `figurs`; the nearest known key is `figures`");
        let message = "unknown field `usee`, expected `data` or `mix`";
        assert_eq!(in_our_words(message, &["use"]), "unknown key `usee`; the nearest known key is `use`");
        assert_eq!(in_our_words("unknown field `x`, there are no fields", &[]), "unknown key `x`");
        assert_eq!(in_our_words("missing field `id`\n", &[]), "missing field `id`");
    }
}
