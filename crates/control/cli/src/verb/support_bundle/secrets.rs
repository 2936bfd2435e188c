//! Secrets are taken out of whatever goes into a bundle. Where it is in doubt what is one, it goes.
//!
//! What is known is looked for letter by letter: the array's own tokens. What is not known is found by its
//! form: values of names such as `password`, logins in web and database addresses, `Bearer` and its token,
//! private keys. Values of JSON are cleaned before they are written, so that no escape hides the end of one.

use serde_json::Value;

use ashlar_api::ArraySettings;

use crate::Context;

/// Stands where a secret stood.
const REMOVED: &str = "[removed]";
/// A name that ends in one of these has a secret as its value, in any case of letters.
const NAMES: [&str; 13] = [
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "apikey",
    "api_key",
    "api-key",
    "private_key",
    "credential",
    "credentials",
    "authorization",
];
/// Shorter ones are no tokens of the array, and stand in too many words.
const TOKEN_BYTES_MIN: usize = 8;
const KEY_BEGIN: &str = "-----BEGIN ";
const KEY_END: &str = "-----END ";

/// What must not be in a bundle.
#[derive(Default)]
pub struct Secrets {
    known: Vec<String>,
}

impl Secrets {
    /// The secrets of an array that this process can read.
    pub fn known(context: &Context, settings: Option<&ArraySettings>) -> Secrets {
        let mut files = vec![
            context.state.join(ashlar_daemon::API_TOKEN),
            context.state.join(ashlar_daemon::METRICS_TOKEN),
        ];
        files.extend(context.token_file.clone());
        let settings = settings.into_iter().flat_map(|all| &all.settings);
        let named = settings.filter(|setting| setting.name.ends_with("token_file"));
        files.extend(named.map(|setting| setting.value.trim_matches('"').into()));
        let tokens = files.iter().filter_map(|path| std::fs::read_to_string(path).ok());
        let known = tokens.map(|token| token.trim().to_string());
        Secrets { known: known.filter(|token| token.len() >= TOKEN_BYTES_MIN).collect() }
    }

    /// Takes secrets out of all texts of a value, and values out of names that say that they are secret.
    pub fn clean(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.cleaned(text),
            Value::Array(list) => list.iter_mut().for_each(|one| self.clean(one)),
            Value::Object(fields) => {
                for (name, field) in fields {
                    match field {
                        Value::String(_) | Value::Number(_) if is_secret(name) => {
                            *field = Value::from(REMOVED);
                        }
                        _ => self.clean(field),
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// The text without secrets.
    pub fn cleaned(&self, text: &str) -> String {
        let known = self.known.iter().fold(text.to_string(), |text, token| text.replace(token, REMOVED));
        without_bearers(&without_values(&without_logins(&without_keys(&known))))
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    NAMES.iter().any(|secret| name.ends_with(secret))
}

/// Without PEM blocks of private keys, up to the end of the text where one has no end.
fn without_keys(text: &str) -> String {
    let mut cleaned = String::new();
    let mut rest = text;
    while let Some(begin) = rest.find(KEY_BEGIN) {
        let (before, block) = rest.split_at(begin);
        cleaned.push_str(before);
        let title = block[KEY_BEGIN.len()..].split("-----").next().unwrap_or_default();
        if !title.ends_with("PRIVATE KEY") {
            cleaned.push_str(KEY_BEGIN);
            rest = &block[KEY_BEGIN.len()..];
            continue;
        }
        cleaned.push_str(REMOVED);
        rest = match block.find(KEY_END) {
            Some(end) => {
                let behind = &block[end + KEY_END.len()..];
                behind.split_once("-----").map_or("", |(_, behind)| behind)
            }
            None => "",
        };
    }
    cleaned + rest
}

/// Without what stands before the `@` of an address, as in `postgres://user:password@host/`.
fn without_logins(text: &str) -> String {
    let mut cleaned = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, behind) = rest.split_at(at + 3);
        cleaned.push_str(before);
        let end = behind.find(|c: char| c.is_whitespace() || "\"'<>`".contains(c)).unwrap_or(behind.len());
        match behind[..end].rfind('@') {
            Some(login) => {
                cleaned.push_str(REMOVED);
                rest = &behind[login..];
            }
            None => rest = behind,
        }
    }
    cleaned + rest
}

/// Without the values of names that say that they are secret: `password=x`, `"token": "x"`, `PGPASSWORD='x'`.
fn without_values(text: &str) -> String {
    let mut cleaned = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['=', ':']) {
        let (before, behind) = rest.split_at(at + 1);
        cleaned.push_str(before);
        rest = behind;
        let name = before[..at].trim_end_matches([' ', '\t', '"', '\'', '\\', '=', ':']);
        if !is_secret(name) {
            continue;
        }
        let value = rest.trim_start_matches([' ', '\t', '=', ':']);
        cleaned.push_str(&rest[..rest.len() - value.len()]);
        let length = value_length(value);
        if length > 0 {
            cleaned.push_str(REMOVED);
        }
        rest = &value[length..];
    }
    cleaned + rest
}

/// How much of a text is the value that it begins with, on one line.
fn value_length(text: &str) -> usize {
    let line = text.split(['\n', '\r']).next().unwrap_or_default();
    for quote in ["\\\"", "\"", "'"] {
        if let Some(inside) = line.strip_prefix(quote) {
            return quoted_length(inside, quote).map_or(line.len(), |length| quote.len() + length);
        }
    }
    let scheme = ["bearer ", "basic "].iter().find(|scheme| starts_with(line, scheme));
    let from = scheme.map_or(0, |scheme| scheme.len());
    from + word_length(&line[from..])
}

/// Up to and with the closing quote; a backslash takes the next letter with it, a doubled quote is one of the
/// value.
fn quoted_length(text: &str, quote: &str) -> Option<usize> {
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if let Some(behind) = rest.strip_prefix(quote) {
            if quote != "'" || !behind.starts_with(quote) {
                return Some(at + quote.len());
            }
            at += 2 * quote.len();
            continue;
        }
        let letters = if rest.starts_with('\\') { 2 } else { 1 };
        at += rest.chars().take(letters).map(char::len_utf8).sum::<usize>();
    }
    None
}

/// Up to a blank that no backslash stands before.
fn word_length(text: &str) -> usize {
    let mut was_backslash = false;
    for (at, letter) in text.char_indices() {
        if letter.is_whitespace() && !was_backslash {
            return at;
        }
        was_backslash = letter == '\\' && !was_backslash;
    }
    text.len()
}

/// Without the token that follows `Bearer`.
fn without_bearers(text: &str) -> String {
    const BEARER: &str = "bearer ";
    let mut cleaned = String::new();
    let mut rest = text;
    let lower = text.to_ascii_lowercase();
    while let Some(at) = lower[text.len() - rest.len()..].find(BEARER) {
        let (before, behind) = rest.split_at(at + BEARER.len());
        cleaned.push_str(before);
        let length = word_length(behind);
        if length > 0 {
            cleaned.push_str(REMOVED);
        }
        rest = &behind[length..];
    }
    cleaned + rest
}

fn starts_with(text: &str, lower: &str) -> bool {
    text.get(..lower.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(lower))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(text: &str) -> String {
        Secrets { known: vec!["0123456789abcdef".to_string()] }.cleaned(text)
    }

    #[test]
    fn secrets_are_found_by_their_form() {
        for (text, expected) in [
            ("host=db password=hunter2 user=x", "host=db password=[removed] user=x"),
            ("password='hunter2 hunter2' user=x", "password=[removed] user=x"),
            (r"password='hunter2\' hunter2' user=x", "password=[removed] user=x"),
            ("password='hunter2''hunter2' user=x", "password=[removed] user=x"),
            (r"password=hunter2\ hunter2 user=x", "password=[removed] user=x"),
            ("PGPASSWORD=hunter2 psql", "PGPASSWORD=[removed] psql"),
            ("sslpassword = hunter2", "sslpassword = [removed]"),
            (r#"{"token": "hunter2", "a": 1}"#, r#"{"token": [removed], "a": 1}"#),
            (r#"{\"token\": \"hunter2 2\", \"a\": 1}"#, r#"{\"token\": [removed], \"a\": 1}"#),
            ("postgres://u:hunter2@db:5432/x y", "postgres://[removed]@db:5432/x y"),
            ("'postgres://u:hun/ter@2@db/x'", "'postgres://[removed]@db/x'"),
            ("Authorization: Bearer hunter2 and", "Authorization: [removed] and"),
            ("shown bearer hunter2", "shown bearer [removed]"),
            ("the token is 0123456789abcdef.", "the token is [removed]."),
            ("password: 'hunter2", "password: [removed]"),
            ("secret==hunter2", "secret==[removed]"),
        ] {
            assert_eq!(cleaned(text), expected, "{text}");
            assert!(!cleaned(text).contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn keys_go_and_certificates_stay() {
        let key = "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIhunter2\n-----END RSA PRIVATE KEY-----\nb";
        assert_eq!(cleaned(key), "a\n[removed]\nb");
        assert_eq!(cleaned("-----BEGIN PRIVATE KEY-----\nMIIhunter2"), "[removed]");
        let one_line = r"-----BEGIN PRIVATE KEY-----\nMIIhunter2\n-----END PRIVATE KEY-----\n";
        assert_eq!(cleaned(one_line), r"[removed]\n");
        let certificate = "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n";
        assert_eq!(cleaned(&format!("{certificate}{key}")), format!("{certificate}a\n[removed]\nb"));
    }

    #[test]
    fn what_is_no_secret_stays() {
        for text in [
            "token_file = \"/etc/ashlar/token\"",
            "FATAL:  password authentication failed for user \"x\"",
            "api: http://127.0.0.1:9410",
            "volume db: deleted; `ashlar volume undelete db` brings it back for 24 hours",
            "12:00:01 pool main: online",
            "ä=ö: ü",
        ] {
            assert_eq!(cleaned(text), text);
        }
    }

    #[test]
    fn values_are_cleaned_by_name_and_by_text() {
        let mut value = serde_json::json!({
            "password": "hunter2", "deep": [{"api_token": 7, "text": "password=hunter2"}],
            "has_fresh_password": true, "name": "db"
        });
        Secrets::default().clean(&mut value);
        let expected = serde_json::json!({
            "password": REMOVED, "deep": [{"api_token": REMOVED, "text": "password=[removed]"}],
            "has_fresh_password": true, "name": "db"
        });
        assert_eq!(value, expected);
    }
}
