//! What an expression says: its text, with names in braces where values are filled in.

use std::ops::Range;

use super::source::{Function, Source, Token};
use Token::{Sign, Text, Word};

/// How often a name may stand for another.
const STEPS_MAX: usize = 4;
/// Parameters of helpers that hold words of a message, and no names of objects.
const WORDING: [&str; 12] = [
    "what", "why", "action", "message", "doing", "how", "text", "which", "refusal", "whose", "wrong",
    "reason",
];

/// What a range of a file says, in each of its cases.
pub(super) fn said(source: &Source, range: Range<usize>) -> Vec<String> {
    let mut all = said_within(source, range, STEPS_MAX);
    all.sort();
    all.dedup();
    all
}

fn said_within(source: &Source, range: Range<usize>, steps: usize) -> Vec<String> {
    let range = bare(source, range);
    let first = range.start;
    match &source.tokens[range.clone()] {
        [Text(text)] => return vec![text.clone()],
        [Word(name)] => return named(source, name, first, steps),
        [Word(word), Sign('!'), Sign('('), ..] if word == "format" => {
            let (arguments, behind) = source.arguments(first + 2);
            if behind >= range.end {
                return filled(source, &arguments, steps);
            }
        }
        _ => {}
    }
    cases(source, range, steps)
}

/// Without borrows, and without what makes a string of a text.
fn bare(source: &Source, mut range: Range<usize>) -> Range<usize> {
    while source.is_sign(range.start, '&') || source.is_sign(range.start, '*') {
        range.start += 1;
    }
    loop {
        let at = range.end.saturating_sub(4);
        let is_call = range.len() > 4
            && source.is_sign(at, '.')
            && ["to_string", "into", "as_str", "clone", "to_owned"]
                .iter()
                .any(|name| source.is_word(at + 1, name))
            && source.is_sign(at + 2, '(')
            && source.is_sign(at + 3, ')');
        if !is_call {
            return range;
        }
        range.end = at;
    }
}

fn named(source: &Source, name: &str, at: usize, steps: usize) -> Vec<String> {
    if name.starts_with(|first: char| first.is_ascii_digit()) {
        return vec![name.to_string()];
    }
    let unknown = || vec![format!("{{{}}}", name.to_lowercase())];
    let Some(steps) = steps.checked_sub(1) else { return unknown() };
    match source.value(name, at) {
        None => source.others.get(name).map_or_else(unknown, |text| vec![text.clone()]),
        Some((value, None)) => said_within(source, value, steps),
        Some((value, Some((position, count)))) => {
            let all = together(source, value, position, count);
            let said: Vec<String> = all.into_iter().flat_map(|one| said_within(source, one, steps)).collect();
            if said.is_empty() { unknown() } else { said }
        }
    }
}

/// The parts at a position of all brackets with so many parts, in a value of several together.
fn together(source: &Source, value: Range<usize>, position: usize, count: usize) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for at in value.clone() {
        let is_begin = at == value.start
            || matches!(source.tokens.get(at - 1), Some(Sign('>' | '{')))
            || matches!(source.tokens.get(at - 1), Some(Word(word)) if word == "else");
        if source.is_sign(at, '(') && is_begin {
            let (parts, _) = source.arguments(at);
            found.extend(parts.get(position).filter(|_| parts.len() == count).cloned());
        }
    }
    found
}

/// The texts of the branches of an expression.
fn cases(source: &Source, range: Range<usize>, steps: usize) -> Vec<String> {
    let (mut found, mut at) = (Vec::new(), range.start);
    while at < range.end {
        if source.is_word(at, "format") && source.is_sign(at + 1, '!') {
            let (arguments, behind) = source.arguments(at + 2);
            found.extend(filled(source, &arguments, steps));
            at = behind;
            continue;
        }
        // What is given a name is said where that is used.
        let is_condition = at > 0 && (source.is_sign(at - 1, '&') || source.is_word(at - 1, "if"));
        if source.is_word(at, "let") && !is_condition {
            at = source.statement_end(at) + 1;
            continue;
        }
        if let Text(text) = &source.tokens[at]
            && !is_compared(source, at)
        {
            found.push(text.clone());
        }
        at += 1;
    }
    if found.is_empty() { vec![format!("{{{}}}", label(source, range))] } else { found }
}

/// Whether a text is the pattern of a case, or an argument of something.
fn is_compared(source: &Source, at: usize) -> bool {
    let before = |back: usize| at.checked_sub(back).and_then(|at| source.tokens.get(at));
    let is_pattern = matches!(source.tokens.get(at + 1), Some(Sign('=' | '|')));
    let is_operand = matches!(before(1), Some(Sign('=')) if matches!(before(2), Some(Sign('=' | '!'))));
    let is_argument = match (before(1), before(2)) {
        (Some(Sign('(')), Some(Word(word))) => !["Some", "Ok", "Err", "from"].contains(&word.as_str()),
        _ => false,
    };
    is_pattern || is_operand || is_argument
}

/// A text with its values filled in as far as they are texts, and with their names where they are not.
fn filled(source: &Source, arguments: &[Range<usize>], steps: usize) -> Vec<String> {
    let Some(Text(template)) = arguments.first().and_then(|first| source.tokens.get(first.start)) else {
        return vec!["{text}".to_string()];
    };
    let (mut said, mut rest, mut next) = (vec![String::new()], template.as_str(), 1);
    while let Some(at) = rest.find(['{', '}']) {
        let (before, behind) = rest.split_at(at);
        append(&mut said, &[before.to_string()]);
        // Twice: the sign itself.
        if behind.starts_with("{{") || behind.starts_with("}}") {
            append(&mut said, &[behind[..1].to_string()]);
            rest = &behind[2..];
            continue;
        }
        let inside = behind.split('}').next().unwrap_or_default().trim_start_matches('{');
        let name = inside.split(':').next().unwrap_or_default();
        append(&mut said, &value_of(source, arguments, name, &mut next, steps));
        rest = behind.split_once('}').map_or("", |(_, rest)| rest);
    }
    append(&mut said, &[rest.to_string()]);
    said
}

fn append(said: &mut Vec<String>, more: &[String]) {
    *said = said.iter().flat_map(|one| more.iter().map(move |text| format!("{one}{text}"))).collect();
}

/// What stands in a place of a text.
fn value_of(
    source: &Source,
    arguments: &[Range<usize>],
    name: &str,
    next: &mut usize,
    steps: usize,
) -> Vec<String> {
    let given = match name {
        "" => {
            *next += 1;
            arguments.get(*next - 1).cloned()
        }
        name => {
            let is_given =
                |one: &&Range<usize>| source.is_word(one.start, name) && source.is_sign(one.start + 1, '=');
            arguments.iter().find(is_given).map(|one| one.start + 2..one.end)
        }
    };
    let unknown = match &given {
        Some(range) => format!("{{{}}}", label(source, range.clone())),
        None => format!("{{{}}}", name.to_lowercase()),
    };
    let Some(less) = steps.checked_sub(1) else { return vec![unknown] };
    let value = match given {
        Some(range) if range.len() == 1 => said_within(source, range, less),
        Some(_) => return vec![unknown],
        None => named(source, name, arguments[0].start, less),
    };
    // Only what has words of its own is worth more than the name.
    let has_words =
        |text: &String| text.starts_with(|first: char| first.is_alphanumeric()) || text.is_empty();
    if value.len() <= 4 && value.iter().all(has_words) { value } else { vec![unknown] }
}

/// What a value is called: the last word of its expression that is no call.
fn label(source: &Source, range: Range<usize>) -> String {
    let (mut value, mut call) = (None, None);
    for at in range {
        let Word(word) = &source.tokens[at] else { continue };
        let is_other = source.is_sign(at + 1, ':') || word.starts_with(|first: char| first.is_ascii_digit());
        match source.is_sign(at + 1, '(') {
            _ if is_other || word == "self" => {}
            true => call = Some(word),
            false => value = Some(word),
        }
    }
    value.or(call).map_or_else(|| "value".to_string(), |word| word.to_lowercase())
}

/// The parameters of a function whose words a message takes.
pub(super) fn wording(function: &Function) -> Vec<(usize, String)> {
    let all = function.parameters.iter().cloned().enumerate();
    all.filter(|(_, name)| WORDING.contains(&name.as_str())).collect()
}
