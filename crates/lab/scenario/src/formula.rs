//! Invariants: small sums over quantities and the names `data`, `users`, `cores`, `memory` and
//! `space`.
//!
//! ```text
//! sum     = product { ("+" | "-") product }
//! product = factor { ("*" | "/") factor }
//! factor  = quantity | name | "(" sum ")"
//! ```
//! Parsed once into steps for a stack, so that a mistake shows when the file is read; units are checked when
//! the values are known. Positions count characters from 1.

use ashlar_units::ByteCount;

use crate::error::{Error, Result};
use crate::quantity::{Quantity, Unit};

/// Parentheses within parentheses. Arbitrary; nobody reads more, and the parser's stack stays small.
const DEPTH_MAX: usize = 16;

/// What the names stand for on this machine, at this scale.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// Not known while the data's own size is worked out.
    pub data: Option<ByteCount>,
    /// Only of workloads that have users.
    pub users: Option<u64>,
    pub cores: u64,
    pub memory: ByteCount,
    /// What the target has room for; known of a pool alone.
    pub space: Option<ByteCount>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Formula {
    text: String,
    steps: Vec<Step>,
}

#[derive(Clone, PartialEq, Debug)]
struct Step {
    position: usize,
    action: Action,
}

#[derive(Clone, PartialEq, Debug)]
enum Action {
    Push(Quantity),
    /// One of [`NAMES`].
    Look(String),
    Apply(char),
}

/// What the target has room for.
pub(crate) const SPACE: &str = "space";

const NAMES: [&str; 5] = ["data", "users", "cores", "memory", SPACE];

impl Formula {
    pub fn parse(text: &str) -> Result<Formula> {
        let letters = text.chars().collect();
        let mut parser = Parser { text, letters, at: 0, steps: Vec::new() };
        parser.sum(0)?;
        match parser.peek() {
            None => Ok(Formula { text: text.to_string(), steps: parser.steps }),
            Some(letter) => Err(parser.wrong(format!("expected an operator, found `{letter}`"))),
        }
    }

    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn evaluate(&self, names: &Names) -> Result<Quantity> {
        let mut stack = Vec::new();
        for step in &self.steps {
            let outcome = match &step.action {
                Action::Push(quantity) => Ok(*quantity),
                Action::Look(name) => value_of(name, names),
                Action::Apply(operator) => {
                    let right = stack.pop().expect("the parser puts two values before an operator");
                    let left = stack.pop().expect("the parser puts two values before an operator");
                    apply(*operator, left, right)
                }
            };
            stack.push(outcome.map_err(|reason| wrong_at(&self.text, step.position, &reason))?);
        }
        Ok(stack.pop().expect("a formula leaves one value"))
    }
}

fn wrong_at(text: &str, position: usize, reason: &str) -> Error {
    Error::file(format!("invariant `{text}`, position {position}: {reason}"))
}

fn value_of(name: &str, names: &Names) -> std::result::Result<Quantity, String> {
    let value = match name {
        "data" => names.data.map(|size| (size.0, Unit::Bytes)),
        "users" => names.users.map(|count| (count, Unit::Number)),
        "cores" => Some((names.cores, Unit::Number)),
        SPACE => {
            let what = "`space` is known of a pool alone: name one as ashlar:POOL";
            return names.space.map(Quantity::of_size).ok_or_else(|| what.to_string());
        }
        _ => Some((names.memory.0, Unit::Bytes)),
    };
    let (value, unit) = value.ok_or_else(|| format!("`{name}` has no value here"))?;
    Ok(Quantity { value: value as f64, unit })
}

fn apply(operator: char, left: Quantity, right: Quantity) -> std::result::Result<Quantity, String> {
    let (a, b) = (left.value, right.value);
    let unit = match operator {
        '*' if left.unit == Unit::Number => right.unit,
        '*' | '/' if right.unit == Unit::Number => left.unit,
        '/' if left.unit == right.unit => Unit::Number,
        '+' | '-' if left.unit == right.unit => left.unit,
        _ => return Err(format!("{left} {operator} {right} has no meaning")),
    };
    let value = match operator {
        '*' => a * b,
        '/' if b == 0.0 => return Err("division by nothing".to_string()),
        '/' => a / b,
        '+' => a + b,
        _ => a - b,
    };
    Ok(Quantity { value, unit })
}

struct Parser<'a> {
    text: &'a str,
    letters: Vec<char>,
    at: usize,
    steps: Vec<Step>,
}

impl Parser<'_> {
    fn sum(&mut self, depth: usize) -> Result<()> {
        self.chain(['+', '-'], |parser| parser.chain(['*', '/'], |parser| parser.factor(depth)))
    }

    /// One operand, and others behind operators of the same strength.
    fn chain(&mut self, operators: [char; 2], operand: impl Fn(&mut Self) -> Result<()>) -> Result<()> {
        operand(self)?;
        while let Some(operator) = self.peek().filter(|letter| operators.contains(letter)) {
            let position = self.advance();
            operand(self)?;
            self.steps.push(Step { position, action: Action::Apply(operator) });
        }
        Ok(())
    }

    fn factor(&mut self, depth: usize) -> Result<()> {
        match self.peek() {
            Some('(') if depth == DEPTH_MAX => {
                Err(self.wrong(format!("more than {DEPTH_MAX} parentheses deep")))
            }
            Some('(') => {
                self.advance();
                self.sum(depth + 1)?;
                if self.peek() != Some(')') {
                    return Err(self.wrong("expected `)`".to_string()));
                }
                self.advance();
                Ok(())
            }
            Some(letter) if letter.is_ascii_digit() => self.quantity(),
            Some(letter) if letter.is_ascii_alphabetic() => self.name(),
            _ => Err(self.wrong("expected a number, a name or `(`".to_string())),
        }
    }

    fn quantity(&mut self) -> Result<()> {
        let position = self.at + 1;
        let mut word = self.take(|letter| letter.is_ascii_digit() || letter == '.');
        word += &self.take(|letter| letter.is_ascii_alphabetic() || letter == '%');
        // `/s` is a unit, not a division: no name is called `s`.
        if self.letters[self.at..].starts_with(&['/', 's']) {
            self.at += 2;
            word += "/s";
        }
        let literal =
            Quantity::parse(&word).map_err(|error| wrong_at(self.text, position, &error.context))?;
        self.steps.push(Step { position, action: Action::Push(literal) });
        Ok(())
    }

    fn name(&mut self) -> Result<()> {
        let position = self.at + 1;
        let word = self.take(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        if !NAMES.contains(&word.as_str()) {
            let reason = format!("unknown name `{word}`; known are {}", NAMES.join(", "));
            return Err(wrong_at(self.text, position, &reason));
        }
        self.steps.push(Step { position, action: Action::Look(word) });
        Ok(())
    }

    /// The next letter that is no space, without taking it.
    fn peek(&mut self) -> Option<char> {
        self.take(char::is_whitespace);
        self.letters.get(self.at).copied()
    }

    /// Takes one letter and says where it stood.
    fn advance(&mut self) -> usize {
        self.at += 1;
        self.at
    }

    fn take(&mut self, belongs: impl Fn(char) -> bool) -> String {
        let word: String = self.letters[self.at..].iter().take_while(|letter| belongs(**letter)).collect();
        self.at += word.chars().count();
        word
    }

    fn wrong(&self, reason: String) -> Error {
        wrong_at(self.text, self.at + 1, &reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELL: Names = Names {
        data: Some(ByteCount(2_000_000_000_000)),
        users: Some(575),
        cores: 32,
        memory: ByteCount(128_000_000_000),
        space: Some(ByteCount(10_000_000_000)),
    };

    fn value(text: &str) -> Quantity {
        Formula::parse(text).and_then(|formula| formula.evaluate(&DELL)).unwrap()
    }

    fn refusal(text: &str) -> String {
        Formula::parse(text).and_then(|formula| formula.evaluate(&DELL)).unwrap_err().to_string()
    }

    #[test]
    fn invariants_of_the_papers_give_their_numbers() {
        assert_eq!(value("18*cores"), Quantity::number(576.0));
        assert_eq!(value("data/17").value.round(), 117_647_058_824.0);
        assert_eq!(value("data / memory"), Quantity::number(15.625));
        assert_eq!(value("30% * space").value.round(), 3_000_000_000.0);
        assert_eq!(value("2*users/5"), Quantity::number(230.0));
        assert_eq!(value("1000/s * cores"), Quantity { value: 32_000.0, unit: Unit::PerSecond });
    }

    #[test]
    fn products_bind_before_sums_and_parentheses_before_both() {
        assert_eq!(value("1 + 2 * 3 - 4 / 2").value, 5.0);
        assert_eq!(value("(1 + 2) * (3 - 1)").value, 6.0);
        assert_eq!(value("8 - 4 - 2").value, 2.0);
        assert_eq!(value("1GiB + 50% * 2GiB"), Quantity { value: (2_u64 << 30) as f64, unit: Unit::Bytes });
    }

    #[test]
    fn errors_name_the_position() {
        let place = |at: usize, text: &str| format!("invariant `{text}`, position {at}: ");
        for (text, at) in [("data/", 6), ("", 1), ("(1+2", 5), ("1 2", 3), ("18/core", 4), ("1+3x", 3)] {
            assert!(refusal(text).starts_with(&place(at, text)), "{}", refusal(text));
        }
        assert!(
            refusal("data + 3").ends_with("position 6: 2000000000000 B + 3 without a unit has no meaning")
        );
        assert!(refusal("1/(cores-32)").ends_with("position 2: division by nothing"));
    }

    #[test]
    fn names_without_a_value_are_refused() {
        let early = Names { data: None, users: None, space: None, ..DELL };
        for text in ["data", "users", "space"] {
            assert!(Formula::parse(text).unwrap().evaluate(&early).is_err(), "{text}");
        }
    }

    #[test]
    fn depth_has_a_limit() {
        let nested = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
        assert_eq!(value(&nested(DEPTH_MAX)).value, 1.0);
        assert!(refusal(&nested(DEPTH_MAX + 1)).contains("position 17: more than 16 parentheses deep"));
    }
}
