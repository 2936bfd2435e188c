//! Where events are posted: `http://HOST[:PORT]/PATH`.

use std::fmt;
use std::net::Ipv6Addr;

/// A web address without TLS.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct WebAddress {
    /// As it stands in the address, an IPv6 address in brackets.
    host: String,
    port: u16,
    /// With what follows a question mark.
    path: String,
}

const PORT: u16 = 80;

impl WebAddress {
    /// Takes an address apart; says what is wrong with it, and not what it holds: paths often are secrets.
    pub(crate) fn parse(text: &str) -> Result<WebAddress, String> {
        let rest = match text.split_once("://") {
            Some(("http", rest)) => rest,
            Some(("https", _)) => {
                return Err("https is not spoken here: name a relay on this machine, or run curl by \
                            event_command"
                    .to_string());
            }
            _ => return Err("an address begins with http://".to_string()),
        };
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) || rest.contains('#') {
            return Err("an address has no blanks, no `#` and no letters beyond ASCII".to_string());
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err("an address with a name or password in it is not taken".to_string());
        }
        let path = if path.starts_with('/') { path.to_string() } else { format!("/{path}") };
        let (host, port) = split_port(authority)?;
        Ok(WebAddress { host: host.to_string(), port, path })
    }

    /// Whom to connect to.
    pub(super) fn peer(&self) -> (&str, u16) {
        let bare = self.host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        (bare.unwrap_or(&self.host), self.port)
    }

    /// As the header `Host` has it.
    pub(super) fn host_header(&self) -> String {
        if self.port == PORT { self.host.clone() } else { format!("{}:{}", self.host, self.port) }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The whole address.
    pub(crate) fn whole(&self) -> String {
        format!("{self}{}", self.path)
    }
}

fn split_port(authority: &str) -> Result<(&str, u16), String> {
    let is_bracketed = authority.ends_with(']');
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !is_bracketed => {
            let port = port.parse().ok().filter(|port| *port != 0);
            (host, port.ok_or_else(|| "the port of an address is 1 to 65535".to_string())?)
        }
        _ => (authority, PORT),
    };
    let is_name = |host: &str| {
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
    };
    let inside = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_host = inside.map_or_else(|| is_name(host), |inside| inside.parse::<Ipv6Addr>().is_ok());
    if is_host { Ok((host, port)) } else { Err("an address needs a host: http://HOST:PORT/PATH".to_string()) }
}

/// Without its path.
impl fmt::Display for WebAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.host_header())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        for (text, host, port, path) in [
            ("http://127.0.0.1:9093/api/v2", "127.0.0.1", 9093, "/api/v2"),
            ("http://relay", "relay", 80, "/"),
            ("http://relay?key=1", "relay", 80, "/?key=1"),
            ("http://[::1]:8080/x", "::1", 8080, "/x"),
            ("http://[::1]/x", "::1", 80, "/x"),
        ] {
            let address = WebAddress::parse(text).unwrap();
            assert_eq!((address.peer(), address.path()), ((host, port), path), "{text}");
            assert_eq!(WebAddress::parse(&address.whole()).unwrap(), address, "{text}");
        }
        assert_eq!(WebAddress::parse("http://a:81/secret").unwrap().to_string(), "http://a:81");
    }

    #[test]
    fn what_is_no_address_is_refused_without_repeating_it() {
        for text in [
            "",
            "relay",
            "ftp://relay",
            "https://relay/x",
            "http://",
            "http://:80",
            "http://a:0",
            "http://a:x",
            "http://u:secret@a/",
            "http://a b/",
            "http://a/#x",
            "http://[::1",
            "http://[x]/",
            "http://a/\r\nx: y",
        ] {
            let why = WebAddress::parse(text).unwrap_err();
            assert!(!why.contains("secret"), "{text:?}: {why}");
        }
    }
}
