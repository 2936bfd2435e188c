//! Checks on one Rust file: its first line, lengths of file, functions and lines, place of `unsafe`.

use super::{Findings, SourceFile};

/// Above this a file has more than one subject. Aim for 300.
const FILE_LINES_MAX: usize = 1000;
/// Above this a function no longer fits a screen.
const FUNCTION_LINES_MAX: usize = 70;
/// rustfmt keeps code at 110; this catches the comments and macros it leaves alone.
const LINE_CHARS_MAX: usize = 110;
/// A message may stay in one piece up to this, so that it can be searched for as it is printed.
const TEXT_LINE_CHARS_MAX: usize = 130;
/// What a long function says above itself to be let through.
const LONG_BECAUSE: &str = "tidy: long because";

/// Crates that may hold `unsafe`, with the reason it cannot be done safely there.
const UNSAFE_ALLOWED: [(&str, &str); 9] = [
    ("crates/base/runtime/", "rings, aligned buffers and wakers"),
    ("crates/media/drive/", "ioctls of block devices"),
    ("crates/media/parity/", "vector kernels"),
    ("crates/store/reduction/", "vector kernels"),
    ("crates/targets/fuse/", "mount and the FUSE ring"),
    ("crates/control/daemon/", "loop device ioctls and mounts of local attach"),
    ("crates/control/database/", "a mount namespace for each server"),
    ("tests/bench/parity/", "calls of a C library that is measured beside ours"),
    ("fuzz/", "the coverage counters the compiler hands over"),
];

pub(super) fn check(file: &SourceFile, findings: &mut Findings) {
    let path = &file.path;
    let first = file.text.lines().find(|line| !line.starts_with("#!"));
    if !first.is_some_and(|line| line.starts_with("//! ") && line.len() > "//! ".len()) {
        findings.add(path, "the first line must be `//!` and one sentence of purpose");
    }
    let line_count = file.text.lines().count();
    if line_count > FILE_LINES_MAX {
        findings.add(path, format!("{line_count} lines, at most {FILE_LINES_MAX}: split it by subject"));
    }
    let code = mask(&file.text);
    for (index, (line, code_line)) in file.text.lines().zip(code.lines()).enumerate() {
        let chars = line.chars().count();
        let is_text = !line.trim_start().starts_with("//") && code_line != line;
        let max = if is_text { TEXT_LINE_CHARS_MAX } else { LINE_CHARS_MAX };
        if chars > max {
            findings.at(path, index, format!("{chars} characters, at most {max}"));
        }
    }
    check_functions(file, &code, findings);
    if !UNSAFE_ALLOWED.iter().any(|(prefix, _)| path.starts_with(prefix)) {
        for (index, line) in code.lines().enumerate() {
            if words_of(line).any(|word| word == "unsafe") {
                findings.at(
                    path,
                    index,
                    "`unsafe` is not for this crate: see tidy/source.rs for where it is",
                );
            }
        }
    }
}

fn check_functions(file: &SourceFile, code: &str, findings: &mut Findings) {
    let lines: Vec<&str> = file.text.lines().collect();
    for function in functions(code) {
        let length = function.last_line - function.first_line + 1;
        if length > FUNCTION_LINES_MAX && !is_excused(&lines, function.first_line) {
            findings.at(
                &file.path,
                function.first_line,
                format!(
                    "function `{}` has {length} lines, at most {FUNCTION_LINES_MAX}: \
                     split it, or say `// {LONG_BECAUSE} ...` above it",
                    function.name
                ),
            );
        }
    }
}

/// The excuse stands among the comments and attributes right above the function.
fn is_excused(lines: &[&str], first_line: usize) -> bool {
    lines[..first_line]
        .iter()
        .rev()
        .map(|line| line.trim_start())
        .take_while(|line| line.starts_with("//") || line.starts_with('#'))
        .any(|line| line.contains(LONG_BECAUSE))
}

/// A function's place, in lines counted from 0.
struct Function {
    name: String,
    first_line: usize,
    last_line: usize,
}

/// Finds every function with a body in masked code.
fn functions(code: &str) -> Vec<Function> {
    let bytes = code.as_bytes();
    let line_of = |offset: usize| bytes[..offset].iter().filter(|byte| **byte == b'\n').count();
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = code[from..].find("fn ").map(|offset| from + offset) {
        from = at + 3;
        let is_word_start = at == 0 || !is_word_byte(bytes[at - 1]);
        let name: String = code[from..].bytes().take_while(|b| is_word_byte(*b)).map(char::from).collect();
        // `fn(` types have no name, and `fn_name` is not the keyword.
        if !is_word_start || name.is_empty() {
            continue;
        }
        if let Some(end) = body_end(bytes, from) {
            found.push(Function { name, first_line: line_of(at), last_line: line_of(end) });
        }
    }
    found
}

/// The offset of the brace that closes the body; `None` for a declaration without one.
fn body_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut nesting = 0_usize;
    for (offset, byte) in bytes.iter().enumerate().skip(from) {
        match byte {
            b'(' | b'[' if depth == 0 => nesting += 1,
            b')' | b']' if depth == 0 => nesting = nesting.saturating_sub(1),
            b';' if depth == 0 && nesting == 0 => return None,
            b'{' => depth += 1,
            b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some(offset);
                }
            }
            _ => {}
        }
    }
    None
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The identifiers and keywords of a line of masked code.
pub(super) fn words_of(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
}

/// The text with comments, strings and character literals blanked out, line by line as before.
pub(super) fn mask(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = literal_end(&chars, at);
        if end == at {
            // An identifier is taken whole, so that the `r` of `for"` never starts a raw string.
            let word_end = word_end(&chars, at).max(at + 1);
            out.extend(&chars[at..word_end]);
            at = word_end;
        } else {
            out.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    out
}

fn word_end(chars: &[char], at: usize) -> usize {
    at + chars[at..].iter().take_while(|c| c.is_alphanumeric() || **c == '_').count()
}

/// Where the comment or literal that starts at `at` ends; `at` itself when none starts there.
fn literal_end(chars: &[char], at: usize) -> usize {
    let rest = &chars[at..];
    let prefix = rest.iter().take_while(|c| matches!(c, 'b' | 'c' | 'r')).count();
    match rest {
        ['/', '/', ..] => at + rest.iter().take_while(|c| **c != '\n').count(),
        ['/', '*', ..] => at + block_comment_length(rest),
        ['\'', ..] => at + char_literal_length(rest),
        ['b', '\'', ..] => at + 1 + char_literal_length(&rest[1..]),
        _ if prefix <= 2 => {
            let is_raw = rest[..prefix].contains(&'r');
            let hashes = rest[prefix..].iter().take_while(|c| **c == '#').count();
            match rest.get(prefix + hashes) {
                Some('"') if is_raw => at + raw_string_length(rest, prefix + hashes + 1, hashes),
                Some('"') if hashes == 0 => at + string_length(rest, prefix + 1),
                _ => at,
            }
        }
        _ => at,
    }
}

fn block_comment_length(rest: &[char]) -> usize {
    let mut depth = 0_usize;
    let mut index = 0;
    while index < rest.len() {
        match rest[index..] {
            ['/', '*', ..] => {
                depth += 1;
                index += 2;
            }
            ['*', '/', ..] => {
                depth -= 1;
                index += 2;
                if depth == 0 {
                    return index;
                }
            }
            _ => index += 1,
        }
    }
    index
}

/// Zero for a lifetime, which looks like the start of a character.
fn char_literal_length(rest: &[char]) -> usize {
    match rest {
        ['\'', '\\', _, tail @ ..] => 3 + tail.iter().take_while(|c| **c != '\'').count() + 1,
        ['\'', _, '\'', ..] => 3,
        _ => 0,
    }
}

fn string_length(rest: &[char], body: usize) -> usize {
    let mut index = body;
    while index < rest.len() {
        match rest[index] {
            '\\' => index += 2,
            '"' => return index + 1,
            _ => index += 1,
        }
    }
    rest.len()
}

fn raw_string_length(rest: &[char], body: usize, hashes: usize) -> usize {
    for index in body..rest.len() {
        let is_closed = rest[index] == '"' && rest[index + 1..].iter().take(hashes).all(|c| *c == '#');
        if is_closed {
            return (index + 1 + hashes).min(rest.len());
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings_of(text: &str) -> Vec<String> {
        let mut findings = Findings::default();
        check(&SourceFile { path: "crates/base/units/src/x.rs".into(), text: text.into() }, &mut findings);
        findings.lines
    }

    #[test]
    fn comments_strings_and_characters_are_masked_and_lifetimes_stay() {
        let code = concat!(
            "let a = \"fn {\"; // fn {\n",
            "let b = r#\"}\"#; /* { /* } */ */ let c: &'a u8 = b'{';\n",
            "let d = '\\'';"
        );
        let masked = mask(code);
        assert!(!masked.contains('{') && !masked.contains('}') && !masked.contains('"'), "{masked}");
        assert!(masked.contains("&'a u8"), "{masked}");
        assert_eq!(masked.lines().count(), 3);
    }

    #[test]
    fn a_long_function_is_found_and_an_excuse_lets_it_through() {
        let body = "    call();\n".repeat(FUNCTION_LINES_MAX);
        let long = format!("//! X.\n\nfn long(a: [u8; 2]) -> u8 {{\n{body}}}\n");
        assert_eq!(findings_of(&long).len(), 1, "{:?}", findings_of(&long));
        let excused = long.replace("\nfn", "\n// tidy: long because it is a table\n#[must_use]\nfn");
        assert_eq!(findings_of(&excused), Vec::<String>::new());
    }

    #[test]
    fn a_declaration_has_no_body_to_measure() {
        let trait_lines = format!("trait T {{\n    fn a(&self);\n{}}}\n", "    const A: u8;\n".repeat(80));
        assert!(functions(&mask(&trait_lines)).is_empty());
    }

    #[test]
    fn a_file_without_purpose_and_a_long_line_are_found() {
        let findings = findings_of(&format!("use x;\n// {}\n", "y".repeat(LINE_CHARS_MAX)));
        assert_eq!(findings.len(), 2, "{findings:?}");
    }

    #[test]
    fn a_message_may_be_longer_than_code_but_a_comment_may_not() {
        let text = "x".repeat(LINE_CHARS_MAX);
        assert_eq!(findings_of(&format!("//! X.\nlet a = \"{text}\n\";\n")).len(), 0);
        assert_eq!(findings_of(&format!("//! X.\nlet a = b; // \"{text}\"\n")).len(), 0);
        assert_eq!(findings_of(&format!("//! X.\n// \"{text}\"\n")).len(), 1);
        assert_eq!(findings_of(&format!("//! X.\nlet a = \"{text}{text}\";\n")).len(), 1);
    }

    #[test]
    fn unsafe_outside_its_crates_is_found_but_not_in_a_comment() {
        assert_eq!(findings_of("//! X.\n// unsafe\nfn f() { unsafe { g() } }\n").len(), 1);
    }
}
