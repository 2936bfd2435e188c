//! A page of a list: in which order, from where, and how far.
//!
//! The cursor is the key of the last object of a page, so that what comes and goes meanwhile moves nothing.
//! It is opaque to callers: JSON in hexadecimal.

use std::fmt::Debug;

use ashlar_api::{LIMIT_MAX, Order, PageQuery, Reason};
use axum::Json;
use axum::http::header::LINK;
use axum::http::{HeaderValue, Uri};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// What objects are sorted by.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(super) enum Key {
    /// It is not known, or there is none: before all others.
    Nothing,
    Number(u64),
    Text(String),
}

impl From<u64> for Key {
    fn from(number: u64) -> Key {
        Key::Number(number)
    }
}

impl From<Option<u64>> for Key {
    fn from(number: Option<u64>) -> Key {
        number.map_or(Key::Nothing, Key::Number)
    }
}

impl From<&String> for Key {
    fn from(text: &String) -> Key {
        Key::Text(text.clone())
    }
}

/// The place behind an object: its key, and what it alone is called by.
type Place = (Key, Key);

/// Where a page begins.
#[derive(Serialize, Deserialize)]
struct Cursor {
    list: String,
    sort: String,
    is_descending: bool,
    behind: Place,
}

/// A list, or a page of it.
#[derive(Debug)]
pub(super) struct Page<T> {
    items: Vec<T>,
    /// The value of `Link`, where there is more.
    next: Option<String>,
}

impl<T: Serialize> IntoResponse for Page<T> {
    fn into_response(self) -> Response {
        let mut response = Json(self.items).into_response();
        let next = self.next.and_then(|next| HeaderValue::from_str(&next).ok());
        if let Some(next) = next {
            response.headers_mut().insert(LINK, next);
        }
        response
    }
}

/// The page that is asked for. Without a word about pages and order the list stays whole, and as it is.
pub(super) fn page<T, S: Copy + Debug>(
    uri: &Uri,
    query: &PageQuery<'_, S>,
    sort_default: S,
    items: Vec<T>,
    place: impl Fn(&T, S) -> Place,
) -> Result<Page<T>> {
    let PageQuery { limit, cursor, sort, order } = query;
    if limit.is_none() && cursor.is_none() && sort.is_none() && order.is_none() {
        return Ok(Page { items, next: None });
    }
    let limit = checked_limit(*limit)?;
    let sort = sort.unwrap_or(sort_default);
    let is_descending = *order == Some(Order::Descending);
    let of_list =
        |behind| Cursor { list: uri.path().to_string(), sort: format!("{sort:?}"), is_descending, behind };
    let mut placed: Vec<(Place, T)> = items.into_iter().map(|item| (place(&item, sort), item)).collect();
    placed.sort_by(|(a, _), (b, _)| if is_descending { b.cmp(a) } else { a.cmp(b) });
    if let Some(text) = cursor {
        let begin = of_list((Key::Nothing, Key::Nothing));
        let behind =
            read(text).filter(|cursor| is_same_list(cursor, &begin)).ok_or_else(wrong_cursor)?.behind;
        placed.retain(|(place, _)| if is_descending { *place < behind } else { *place > behind });
    }
    let is_more = placed.len() > limit;
    placed.truncate(limit);
    let last = placed.last().filter(|_| is_more).map(|(place, _)| place.clone());
    let next = last.map(|place| link(uri, &written(&of_list(place))));
    Ok(Page { items: placed.into_iter().map(|(_, item)| item).collect(), next })
}

fn checked_limit(limit: Option<u64>) -> Result<usize> {
    match limit {
        None => Ok(usize::MAX),
        Some(limit) if (1..=LIMIT_MAX).contains(&limit) => Ok(limit as usize),
        Some(limit) => Err(Error::invalid(
            format!("a page of {limit} objects is not possible"),
            format!("choose a `limit` from 1 to {LIMIT_MAX}, or leave it out to have all"),
        )
        .because(Reason::WrongParameter)),
    }
}

fn wrong_cursor() -> Error {
    Error::invalid(
        "the cursor is none of this list and this order",
        "begin without a cursor, and go on with the address in the header `Link` as it is",
    )
    .because(Reason::WrongCursor)
}

fn is_same_list(one: &Cursor, other: &Cursor) -> bool {
    (&one.list, &one.sort, one.is_descending) == (&other.list, &other.sort, other.is_descending)
}

fn written(cursor: &Cursor) -> String {
    let text = serde_json::to_string(cursor).expect("cursors are plain data");
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn read(text: &str) -> Option<Cursor> {
    let digits = text.as_bytes();
    if digits.len() % 2 == 1 || !digits.is_ascii() {
        return None;
    }
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
    serde_json::from_slice(&bytes?).ok()
}

/// The same question with another cursor.
fn link(uri: &Uri, cursor: &str) -> String {
    let query = uri.query().unwrap_or_default();
    let others = query.split('&').filter(|one| !one.is_empty() && !one.starts_with("cursor="));
    let all: Vec<String> = others.map(str::to_string).chain([format!("cursor={cursor}")]).collect();
    format!("<{}?{}>; rel=\"next\"", uri.path(), all.join("&"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Sort {
        Name,
        Size,
    }

    type Item = (&'static str, u64);

    const ITEMS: [Item; 5] = [("e", 1), ("a", 2), ("c", 2), ("b", 1), ("d", 3)];

    fn ask(items: &[Item], sort: Sort, uri: &str, order: Order) -> Result<Page<Item>> {
        let uri: Uri = uri.parse().unwrap();
        let value = |name: &str| {
            let pairs = uri.query().unwrap_or_default().split('&');
            pairs
                .filter_map(|pair| pair.split_once('='))
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value)
        };
        let limit = value("limit").map(|limit| limit.parse().unwrap());
        let query = PageQuery { limit, cursor: value("cursor"), sort: Some(sort), order: Some(order) };
        page(&uri, &query, Sort::Name, items.to_vec(), |item, sort| match sort {
            Sort::Name => (Key::Text(item.0.to_string()), Key::Nothing),
            Sort::Size => (Key::Number(item.1), Key::Text(item.0.to_string())),
        })
    }

    /// Follows the links; between two pages `change` may change what there is.
    fn walk(sort: Sort, order: Order, change: impl Fn(&mut Vec<Item>)) -> Vec<&'static str> {
        let (mut items, mut names) = (ITEMS.to_vec(), Vec::new());
        let mut uri = "/v1/things?limit=2&other=x".to_string();
        loop {
            let page = ask(&items, sort, &uri, order).unwrap();
            names.extend(page.items.iter().map(|item| item.0));
            let Some(next) = page.next else { return names };
            uri = next.strip_prefix('<').unwrap().strip_suffix(">; rel=\"next\"").unwrap().to_string();
            assert!(uri.starts_with("/v1/things?limit=2&other=x&cursor="), "{uri}");
            change(&mut items);
        }
    }

    #[test]
    fn pages_add_up_to_the_list_in_every_order() {
        let stays = |_: &mut Vec<Item>| {};
        assert_eq!(walk(Sort::Name, Order::Ascending, stays), ["a", "b", "c", "d", "e"]);
        assert_eq!(walk(Sort::Name, Order::Descending, stays), ["e", "d", "c", "b", "a"]);
        assert_eq!(walk(Sort::Size, Order::Ascending, stays), ["b", "e", "a", "c", "d"]);
        assert_eq!(walk(Sort::Size, Order::Descending, stays), ["d", "c", "a", "e", "b"]);
    }

    #[test]
    fn what_comes_and_goes_between_pages_moves_nothing() {
        let goes = |items: &mut Vec<Item>| items.retain(|item| item.0 != "b" && item.0 != "c");
        assert_eq!(walk(Sort::Name, Order::Ascending, goes), ["a", "b", "d", "e"]);
        let comes = |items: &mut Vec<Item>| items.push(("a1", 9));
        assert_eq!(walk(Sort::Name, Order::Ascending, comes), ["a", "b", "c", "d", "e"]);
    }

    #[test]
    fn impossible_pages_are_refused() {
        let cursor = {
            let page = ask(&ITEMS, Sort::Name, "/v1/things?limit=2", Order::Ascending).unwrap();
            let next = page.next.unwrap();
            next.split("cursor=").nth(1).unwrap().split('>').next().unwrap().to_string()
        };
        let refused = |sort, uri: &str, order| ask(&ITEMS, sort, uri, order).unwrap_err().reason.unwrap();
        let (name, up, down) = (Sort::Name, Order::Ascending, Order::Descending);
        for limit in ["0", "1001", "18446744073709551615"] {
            assert_eq!(refused(name, &format!("/x?limit={limit}"), up), Reason::WrongParameter);
        }
        assert!(ask(&ITEMS, name, &format!("/v1/things?cursor={cursor}"), up).is_ok());
        assert_eq!(refused(name, &format!("/v1/things?cursor={cursor}"), down), Reason::WrongCursor);
        assert_eq!(refused(Sort::Size, &format!("/v1/things?cursor={cursor}"), up), Reason::WrongCursor);
        assert_eq!(refused(name, &format!("/v1/others?cursor={cursor}"), up), Reason::WrongCursor);
        for wrong in ["", "x", "7", "7b7d", "zz", &cursor[1..]] {
            assert_eq!(
                refused(name, &format!("/v1/things?cursor={wrong}"), up),
                Reason::WrongCursor,
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_list_that_is_asked_for_no_page_stays_as_it_is() {
        let query = PageQuery { limit: None, cursor: None, sort: None, order: None };
        let whole = page(&"/x".parse().unwrap(), &query, Sort::Name, ITEMS.to_vec(), |_, _| {
            (Key::Nothing, Key::Nothing)
        });
        let whole = whole.unwrap();
        assert!(whole.items == ITEMS && whole.next.is_none());
    }
}
