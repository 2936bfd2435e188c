//! NBD up to its STARTTLS, as a server that demands TLS (`doc/proto.md` of the NetworkBlockDevice project,
//! "FORCEDTLS mode"): nothing of a volume is told before.

use std::io;

use ashlar_nbd::wire::{
    HANDSHAKE_FIXED_NEWSTYLE, HANDSHAKE_NO_ZEROES, MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, option, reply,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// What a server says first.
pub(super) const GREETING_BYTES: usize = 18;
/// Options before STARTTLS. Arbitrary: clients send none or one.
const OPTIONS_MAX: usize = 16;
/// Data of such an option. The longest that a client has reason to send is a name of 4096 bytes.
const DATA_BYTES_MAX: u32 = 8192;

/// Returns the client's flags when its next byte is of TLS; `None` when it went.
pub(super) async fn until_tls<S>(stream: &mut S) -> io::Result<Option<u32>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let flags = HANDSHAKE_FIXED_NEWSTYLE | HANDSHAKE_NO_ZEROES;
    let mut greeting = Vec::with_capacity(GREETING_BYTES);
    greeting.extend_from_slice(&MAGIC.to_be_bytes());
    greeting.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
    greeting.extend_from_slice(&flags.to_be_bytes());
    stream.write_all(&greeting).await?;
    let client_flags = stream.read_u32().await?;
    for _ in 0..OPTIONS_MAX {
        if stream.read_u64().await? != OPTION_MAGIC {
            return Ok(None);
        }
        let (kind, length) = (stream.read_u32().await?, stream.read_u32().await?);
        if length > DATA_BYTES_MAX {
            return Ok(None);
        }
        tokio::io::copy(&mut (&mut *stream).take(u64::from(length)), &mut tokio::io::sink()).await?;
        match kind {
            option::STARTTLS if length == 0 => {
                answer(stream, kind, reply::ACK, "").await?;
                return Ok(Some(client_flags));
            }
            option::STARTTLS => answer(stream, kind, reply::ERR_INVALID, "this option has no data").await?,
            option::ABORT => {
                answer(stream, kind, reply::ACK, "").await?;
                return Ok(None);
            }
            // It has no answer that says why.
            option::EXPORT_NAME => return Ok(None),
            _ => answer(stream, kind, reply::ERR_TLS_REQD, "this address serves over TLS only").await?,
        }
    }
    Ok(None)
}

async fn answer<S: AsyncWrite + Unpin>(stream: &mut S, kind: u32, code: u32, text: &str) -> io::Result<()> {
    let length = u32::try_from(text.len()).expect("our own words are short");
    let mut bytes = OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
    [kind, code, length].iter().for_each(|word| bytes.extend_from_slice(&word.to_be_bytes()));
    bytes.extend_from_slice(text.as_bytes());
    stream.write_all(&bytes).await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tokio::io::duplex;

    use super::*;

    /// What the server answers to these options, and whether TLS begins.
    async fn ask(options: &[(u32, &[u8])]) -> (Vec<u32>, Option<u32>) {
        let (mut client, mut server) = duplex(1 << 16);
        client.write_all(&3u32.to_be_bytes()).await.unwrap();
        for (kind, data) in options {
            client.write_all(&OPTION_MAGIC.to_be_bytes()).await.unwrap();
            client.write_all(&kind.to_be_bytes()).await.unwrap();
            client.write_all(&u32::try_from(data.len()).unwrap().to_be_bytes()).await.unwrap();
            client.write_all(data).await.unwrap();
        }
        client.shutdown().await.unwrap();
        let began = until_tls(&mut server).await.unwrap_or(None);
        drop(server);
        let mut said = Vec::new();
        client.read_to_end(&mut said).await.unwrap();
        let mut rest = &said[GREETING_BYTES..];
        let mut codes = Vec::new();
        while let Some((head, tail)) = rest.split_first_chunk::<20>() {
            let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
            codes.push(word(12));
            rest = &tail[word(16) as usize..];
        }
        (codes, began)
    }

    #[tokio::test]
    async fn tls_begins_when_it_is_asked_for_and_nothing_is_told_before() {
        assert_eq!(ask(&[(option::STARTTLS, b"")]).await, (vec![reply::ACK], Some(3)));
        let (codes, began) =
            ask(&[(option::LIST, b""), (option::GO, b"\0\0\0\x01v\0\0"), (option::STARTTLS, b"")]).await;
        assert_eq!((codes, began), (vec![reply::ERR_TLS_REQD, reply::ERR_TLS_REQD, reply::ACK], Some(3)));
    }

    #[tokio::test]
    async fn who_abuses_the_options_is_let_go() {
        assert_eq!(ask(&[(option::EXPORT_NAME, b"v")]).await, (vec![], None));
        assert_eq!(ask(&[(option::ABORT, b"")]).await, (vec![reply::ACK], None));
        assert_eq!(ask(&[(option::STARTTLS, b"x")]).await, (vec![reply::ERR_INVALID], None));
        assert_eq!(ask(&[(option::LIST, &[0; DATA_BYTES_MAX as usize + 1])]).await, (vec![], None));
        let (codes, began) = ask(&[(option::LIST, b"".as_slice()); OPTIONS_MAX + 1]).await;
        assert_eq!((codes.len(), began), (OPTIONS_MAX, None));
        assert_eq!(ask(&[]).await, (vec![], None));
    }
}
