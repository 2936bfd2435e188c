//! Rust sources as far as messages need them: words, texts and signs, functions and closures with their
//! parameters, and what a name in them stands for.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::ops::Range;
use std::str::Chars;

/// A piece of a source file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Token {
    Word(String),
    /// A string, without its quotes.
    Text(String),
    Sign(char),
}

use Token::{Sign, Text, Word};

/// Where a value stands; of one of several that were given together its place among them, and how many.
pub(super) type Value = (Range<usize>, Option<(usize, usize)>);

/// A function, or a closure that has a name.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) parameters: Vec<String>,
    pub(super) is_closure: bool,
    pub(super) body: Range<usize>,
}

/// One file without comments and tests.
pub(super) struct Source {
    pub(super) tokens: Vec<Token>,
    pub(super) functions: Vec<Function>,
    /// What constants of other files say.
    pub(super) others: BTreeMap<String, String>,
}

impl Source {
    pub(super) fn read(text: &str) -> Source {
        let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
        let tokens = tokens(&text[..end]);
        let functions = functions(&tokens);
        Source { tokens, functions, others: BTreeMap::new() }
    }

    /// The constants that are a text or a number as they stand.
    pub(super) fn constants(&self) -> Vec<(String, String)> {
        let constant = |at: usize| {
            let Some(Word(name)) = self.tokens.get(at + 1).filter(|_| self.is_word(at, "const")) else {
                return None;
            };
            let (value, _) = self.constant(name)?;
            match &self.tokens[value] {
                [Text(text)] => Some((name.clone(), text.clone())),
                [Word(word)] if word.starts_with(|first: char| first.is_ascii_digit()) => {
                    Some((name.clone(), word.clone()))
                }
                _ => None,
            }
        };
        (0..self.tokens.len()).filter_map(constant).collect()
    }

    /// The functions that hold a place, the innermost first.
    pub(super) fn functions_around(&self, at: usize) -> Vec<&Function> {
        let mut around: Vec<_> =
            self.functions.iter().filter(|function| function.body.contains(&at)).collect();
        around.sort_by_key(|function| function.body.len());
        around
    }

    /// Whether a word stands there.
    pub(super) fn is_word(&self, at: usize, word: &str) -> bool {
        matches!(self.tokens.get(at), Some(Word(found)) if found == word)
    }

    pub(super) fn is_sign(&self, at: usize, sign: char) -> bool {
        self.tokens.get(at) == Some(&Sign(sign))
    }

    /// The arguments of the call whose bracket opens there, and the place behind the one that closes it.
    pub(super) fn arguments(&self, open: usize) -> (Vec<Range<usize>>, usize) {
        let end = closing(&self.tokens, open);
        (split(&self.tokens, open + 1..end), end + 1)
    }

    /// Where a statement that begins or goes on there ends.
    pub(super) fn statement_end(&self, at: usize) -> usize {
        statement_end(&self.tokens, at)
    }

    /// What a name stands for at a place: the value that it was given there, or for the file. Of a name that
    /// was given one of several together, its place among them.
    pub(super) fn value(&self, name: &str, at: usize) -> Option<Value> {
        let begin =
            self.functions.iter().filter(|one| one.body.contains(&at)).map(|one| one.body.start).min();
        (begin.unwrap_or(0)..at)
            .rev()
            .find_map(|place| self.given(name, place, at))
            .or_else(|| self.constant(name))
    }

    fn constant(&self, name: &str) -> Option<Value> {
        let at =
            (0..self.tokens.len()).find(|at| self.is_word(*at, "const") && self.is_word(at + 1, name))?;
        let equals = (at..self.tokens.len()).find(|at| self.is_sign(*at, '='))?;
        Some((equals + 1..statement_end(&self.tokens, equals + 1), None))
    }

    /// `let name = ...`, `let (name, other) = ...`, for whoever names it behind that.
    fn given(&self, name: &str, at: usize, user: usize) -> Option<Value> {
        if !self.is_word(at, "let") {
            return None;
        }
        let first = at + 1 + usize::from(self.is_word(at + 1, "mut"));
        let (position, behind) = if self.is_sign(first, '(') {
            let (names, behind) = self.arguments(first);
            let is_name = |one: &Range<usize>| one.len() == 1 && self.is_word(one.start, name);
            (Some((names.iter().position(is_name)?, names.len())), behind)
        } else if self.is_word(first, name) {
            (None, first + 1)
        } else {
            return None;
        };
        let end = statement_end(&self.tokens, behind);
        let equals = (behind..end).find(|at| self.is_sign(*at, '='))?;
        let value = equals + 1..end;
        (!value.contains(&user)).then_some((value, position))
    }
}

fn tokens(text: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(letter) = rest.next() {
        match letter {
            '/' if rest.peek() == Some(&'/') => while rest.next().is_some_and(|next| next != '\n') {},
            '"' => found.push(Text(literal(&mut rest))),
            '\'' => quoted(&mut rest, &mut found),
            letter if letter.is_alphanumeric() || letter == '_' => {
                let mut word = String::from(letter);
                while let Some(next) = rest.next_if(|next| next.is_alphanumeric() || *next == '_') {
                    word.push(next);
                }
                match rest.peek() {
                    Some('"' | '#') if word == "r" => found.push(Text(raw_literal(&mut rest))),
                    _ => found.push(Word(word)),
                }
            }
            letter if letter.is_whitespace() => {}
            letter => found.push(Sign(letter)),
        }
    }
    found
}

/// A letter in quotes, or a lifetime, of which nothing is kept.
fn quoted(rest: &mut Peekable<Chars<'_>>, found: &mut Vec<Token>) {
    let first = rest.next();
    if first == Some('\\') {
        rest.next();
        while rest.next().is_some_and(|next| next != '\'') {}
    } else if rest.next_if_eq(&'\'').is_none() {
        while rest.next_if(|next| next.is_alphanumeric() || *next == '_').is_some() {}
    } else {
        found.push(Sign('\''));
    }
}

/// A text, from behind its first quote to its last.
pub(crate) fn literal(rest: &mut Peekable<Chars<'_>>) -> String {
    let mut text = String::new();
    while let Some(letter) = rest.next() {
        match letter {
            '"' => break,
            '\\' => match rest.next() {
                // The text goes on at the next letter that is no blank.
                Some('\n') => while rest.next_if(|next| next.is_whitespace()).is_some() {},
                Some('n') => text.push('\n'),
                Some(escaped) => text.push(escaped),
                None => {}
            },
            letter => text.push(letter),
        }
    }
    text
}

fn raw_literal(rest: &mut Peekable<Chars<'_>>) -> String {
    let mut hashes = 0;
    while rest.next_if_eq(&'#').is_some() {
        hashes += 1;
    }
    rest.next();
    let end = format!("\"{}", "#".repeat(hashes));
    let mut text = String::new();
    for letter in rest.by_ref() {
        text.push(letter);
        if text.ends_with(&end) {
            break;
        }
    }
    text.truncate(text.len().saturating_sub(end.len()));
    text
}

/// Where the bracket that opens there is closed.
fn closing(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token {
            Sign('(' | '[' | '{') => depth += 1,
            Sign(')' | ']' | '}') => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at;
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

/// Where a statement ends: at its semicolon, at `else`, or with the block that it is in.
fn statement_end(tokens: &[Token], begin: usize) -> usize {
    let mut at = begin;
    while let Some(token) = tokens.get(at) {
        match token {
            Sign('(' | '[' | '{') => at = closing(tokens, at),
            Sign(';' | ')' | ']' | '}') => return at,
            _ => {}
        }
        at += 1;
    }
    tokens.len()
}

/// The parts between commas, of brackets or of a closure's parameters.
fn split(tokens: &[Token], range: Range<usize>) -> Vec<Range<usize>> {
    let (mut parts, mut begin, mut at) = (Vec::new(), range.start, range.start);
    while at < range.end {
        match &tokens[at] {
            Sign('(' | '[' | '{') => at = closing(tokens, at),
            // The parameters of a closure are one part with what it does.
            Sign('|') if begin == at => {
                at = (at + 1..range.end).find(|at| tokens[*at] == Sign('|')).unwrap_or(at);
            }
            Sign(',') => {
                parts.push(begin..at);
                begin = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    parts.extend((begin < range.end).then_some(begin..range.end));
    parts
}

fn functions(tokens: &[Token]) -> Vec<Function> {
    let word = |at: usize| match tokens.get(at) {
        Some(Word(word)) => Some(word.as_str()),
        _ => None,
    };
    let sign = |at: usize, sign: char| tokens.get(at) == Some(&Sign(sign));
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        if word(at) == Some("fn") {
            let Some(name) = word(at + 1) else { continue };
            let Some(open) = (at..tokens.len()).find(|at| sign(*at, '(')) else { continue };
            let close = closing(tokens, open);
            let Some(body) = (close..tokens.len()).find(|at| sign(*at, '{') || sign(*at, ';')) else {
                continue;
            };
            if sign(body, '{') {
                let parameters = names(tokens, open + 1..close);
                let body = body..closing(tokens, body);
                found.push(Function { name: name.to_string(), parameters, is_closure: false, body });
            }
        } else if word(at) == Some("let") && sign(at + 2, '=') {
            let Some(name) = word(at + 1) else { continue };
            let open = at + 3 + usize::from(word(at + 3) == Some("move"));
            let is_closure = sign(open, '|') && !sign(open + 1, '|');
            let close = (open + 1..tokens.len()).find(|at| sign(*at, '|'));
            let Some(close) = close.filter(|_| is_closure) else { continue };
            let parameters = names(tokens, open + 1..close);
            let body = close + 1..statement_end(tokens, close + 1);
            found.push(Function { name: name.to_string(), parameters, is_closure: true, body });
        }
    }
    found
}

/// The names of parameters, without `self`.
fn names(tokens: &[Token], range: Range<usize>) -> Vec<String> {
    let name = |part: Range<usize>| {
        let mut words = part.map_while(|at| match &tokens[at] {
            Sign(':') => None,
            Word(word) => Some(word.clone()),
            _ => Some(String::new()),
        });
        words.find(|word| !["", "mut", "self"].contains(&word.as_str()))
    };
    let parts = split_parameters(tokens, range);
    parts.into_iter().filter_map(name).collect()
}

/// As [`split`]; types have commas between `<` and `>`, too.
fn split_parameters(tokens: &[Token], range: Range<usize>) -> Vec<Range<usize>> {
    let (mut parts, mut begin, mut depth) = (Vec::new(), range.start, 0_usize);
    for at in range.clone() {
        match &tokens[at] {
            Sign('(' | '[' | '<') => depth += 1,
            Sign(')' | ']' | '>') => depth = depth.saturating_sub(1),
            Sign(',') if depth == 0 => {
                parts.push(begin..at);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.extend((begin < range.end).then_some(begin..range.end));
    parts
}
