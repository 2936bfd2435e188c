//! What a caller sees when there is no array, or something else listens.

#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use ashlar_api::ErrorKind;

use crate::{Address, Client, Content};

#[test]
fn a_missing_socket_says_how_to_start_an_array() {
    let address = Address::Socket("/nonexistent/ashlar/api.sock".into());
    let error = Client::new(address).unwrap().status().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Closed);
    assert!(error.to_string().contains("ashlar serve"), "{error}");
    assert!(error.to_string().contains("/nonexistent/ashlar/api.sock"), "{error}");
}

/// Answers one connection with fixed bytes, whatever is asked.
fn answer_once(text: &'static str) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp(listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0u8; 4096];
        let _ = stream.read(&mut request);
        let _ = stream.write_all(text.as_bytes());
    });
    address
}

#[test]
fn the_arrays_own_words_come_through() {
    let address = answer_once(
        "HTTP/1.1 404 Not Found\r\ncontent-length: 241\r\n\r\n\
         {\"type\":\"/docs/reference/errors.md#not-found\",\"title\":\"There is no such object\",\
         \"status\":404,\"detail\":\"volume `x` does not exist\",\"kind\":\"not-found\",\"object\
         \":{\"kind\":\"volume\",\"name\":\"x\"},\"remedy\":{\"command\":\"list them\",\"request\
         \":\"GET them\"}}",
    );
    let error = Client::new(address).unwrap().volume("x").unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert_eq!(error.to_string(), "volume `x` does not exist: list them");
    assert_eq!(error.object.unwrap().name, "x");
}

#[test]
fn a_foreign_server_is_not_taken_for_an_array() {
    let address = answer_once("HTTP/1.1 404 Not Found\r\ncontent-length: 5\r\n\r\nhello");
    let error = Client::new(address).unwrap().status().unwrap_err();
    assert!(error.message.contains("is not an array"), "{error}");
}

#[test]
fn a_connection_that_breaks_says_that_the_outcome_is_unknown() {
    let address = answer_once("HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{");
    let error = Client::new(address).unwrap().status().unwrap_err();
    assert!(error.action.contains("unknown"), "{error}");
}

#[test]
fn what_is_not_nbd_or_ends_early_is_an_error_of_reading() {
    let path = std::env::temp_dir().join(format!("ashlar-client-test-{}", std::process::id()));
    let listener = UnixListener::bind(&path).unwrap();
    let greeting = b"NBDMAGICIHAVEOPT\0\x03";
    let rubbish: [&[u8]; 4] =
        [b"HTTP/1.1 400 Bad Request\r\n", greeting, &[greeting.as_slice(), &[7; 20]].concat(), b""];
    for bytes in rubbish {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.write_all(bytes);
            });
            let error = Content::open(&path, "db").err().expect("rubbish is refused");
            assert_eq!(error.kind, ErrorKind::Medium, "{error}");
            assert!(error.message.contains("`db`"), "{error}");
        });
    }
    std::fs::remove_file(&path).unwrap();
    let error = Content::open(&path, "db").err().expect("there is no socket");
    assert_eq!(error.kind, ErrorKind::Closed, "{error}");
}
