//! CHAP: proving that one knows a secret without telling it (RFC 7143 12.1.3, RFC 1994).

use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Bytes of a challenge made here: as long as the longest response.
pub const CHALLENGE_BYTES: usize = 32;
/// "The length of CHAP_C MUST NOT exceed 1024 bytes" (12.1.3).
pub const CHALLENGE_BYTES_MAX: usize = 1024;
/// The shortest secret: 96 bits, which RFC 7143 9.2.1 demands where IPsec does not protect the connection.
pub const SECRET_BYTES_MIN: usize = 12;
/// The longest. Arbitrary: Windows takes 16 bytes, Linux 255.
pub const SECRET_BYTES_MAX: usize = 255;

/// How a response is made, by its number in CHAP_A.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Algorithm {
    Md5 = 5,
    Sha1 = 6,
    Sha256 = 7,
}

impl Algorithm {
    /// The algorithm of this number.
    #[must_use]
    pub fn of_number(number: u32) -> Option<Algorithm> {
        [Algorithm::Md5, Algorithm::Sha1, Algorithm::Sha256]
            .into_iter()
            .find(|algorithm| *algorithm as u32 == number)
    }
}

/// A name and the secret that proves it.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    name: String,
    secret: Vec<u8>,
}

impl Credential {
    /// A credential; the error says what is wrong with it.
    pub fn new(name: &str, secret: &[u8]) -> Result<Credential, String> {
        if name.is_empty() || name.len() > 255 || name.contains('\0') {
            return Err(format!("CHAP name {name:?}: 1 to 255 bytes without NUL are allowed"));
        }
        if !(SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&secret.len()) {
            let bytes = secret.len();
            return Err(format!(
                "the CHAP secret of {name:?} has {bytes} bytes: {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} are allowed"
            ));
        }
        Ok(Credential { name: name.to_string(), secret: secret.to_vec() })
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Both prove the same: then whoever is asked could send the question back and be told the answer.
    #[must_use]
    pub fn shares_secret(&self, other: &Credential) -> bool {
        self.secret.as_slice().ct_eq(other.secret.as_slice()).into()
    }

    /// The response to a challenge.
    #[must_use]
    pub fn response(&self, algorithm: Algorithm, identifier: u8, challenge: &[u8]) -> Vec<u8> {
        let parts = [&[identifier][..], &self.secret, challenge];
        match algorithm {
            Algorithm::Md5 => hash::<Md5>(parts),
            Algorithm::Sha1 => hash::<Sha1>(parts),
            Algorithm::Sha256 => hash::<Sha256>(parts),
        }
    }

    /// Whether a response is the right one, in a time that does not tell how much of it was.
    #[must_use]
    pub fn is_proven(&self, algorithm: Algorithm, identifier: u8, challenge: &[u8], response: &[u8]) -> bool {
        self.response(algorithm, identifier, challenge).as_slice().ct_eq(response).into()
    }
}

/// Never shows the secret.
impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credential({:?})", self.name)
    }
}

fn hash<D: Digest>(parts: [&[u8]; 3]) -> Vec<u8> {
    let mut hasher = D::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hexadecimal(bytes: &[u8]) -> String {
        crate::text::to_binary(bytes)
    }

    /// The hash of identifier "a", secret "bcdefghijklm" and challenge "nopqrstuvwxyz" is that of the
    /// alphabet, for which RFC 1321 A.5 gives MD5; SHA-1 and SHA-256 are those `sha1sum` and `sha256sum`
    /// print.
    #[test]
    fn responses_are_hashes_of_identifier_secret_and_challenge() {
        let credential = Credential::new("host", b"bcdefghijklm").unwrap();
        let response = |algorithm| hexadecimal(&credential.response(algorithm, b'a', b"nopqrstuvwxyz"));
        assert_eq!(response(Algorithm::Md5), "0xc3fcd3d76192e4007dfb496cca67e13b");
        assert_eq!(response(Algorithm::Sha1), "0x32d10c7b8cf96570ca04ce37f2a19d84240d3a89");
        assert_eq!(
            response(Algorithm::Sha256),
            "0x71c480df93d6ae2f1efad1447c66c9525e316218cf51fc8d9ed832f2daf18b73"
        );
    }

    #[test]
    fn only_the_whole_right_response_proves() {
        let credential = Credential::new("host", b"bcdefghijklm").unwrap();
        let response = credential.response(Algorithm::Sha256, 1, b"challenge");
        assert!(credential.is_proven(Algorithm::Sha256, 1, b"challenge", &response));
        assert!(!credential.is_proven(Algorithm::Sha256, 2, b"challenge", &response));
        assert!(!credential.is_proven(Algorithm::Sha256, 1, b"challenge", &response[..31]));
        assert!(!credential.is_proven(Algorithm::Sha256, 1, b"challenge", &[]));
    }

    #[test]
    fn secrets_that_are_too_short_are_refused_and_none_is_shown() {
        assert!(Credential::new("host", &[b'x'; 11]).unwrap_err().contains("11 bytes"));
        assert!(Credential::new("", &[b'x'; 12]).is_err());
        let credential = Credential::new("host", &[b'x'; 12]).unwrap();
        assert!(!format!("{credential:?}").contains('x'));
    }
}
