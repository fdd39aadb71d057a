//! Encryption on the client: AES-256-GCM, with a key for each object.
//!
//! The user's key and the archive's random salt give the archive's key (HKDF-SHA-256). That and a random
//! number of the object give the object's key and nonce. So the number of objects is not limited by the
//! 96 bits of a nonce, and one key may serve many archives.

use super::header::HEADER_LEN;
use super::reject::Reject;
use crate::object::Nonce;
use base64::Engine as _;
use ring::aead::{self, AES_256_GCM, Aad, LessSafeKey, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Length of a key in bytes.
pub const KEY_LEN: usize = 32;
/// Length of the authentication tag behind an encrypted payload.
pub(super) const TAG_LEN: usize = 16;
/// Length of the salt of an archive.
pub(super) const SALT_LEN: usize = 32;
/// Length of the value that tells a wrong key.
pub(super) const KEY_CHECK_LEN: usize = 16;

/// Longest text of a key that is read from a file.
const MAX_KEY_TEXT: u64 = 1024;

/// Key of the user for archives. Its bytes appear in no output.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretKey([u8; KEY_LEN]);

/// Error for a key that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The text is not a key.
    #[error(
        "the key from {source_name} is not 32 bytes in hexadecimal (64 digits) or base64 (44 characters); \
         `openssl rand -hex 32` makes one"
    )]
    Text {
        /// File or variable with the text.
        source_name: String,
    },
    /// The environment does not have the variable.
    #[error("the environment variable {0} is not set: set it to the key of the archive")]
    NotSet(String),
    /// The file cannot be read.
    #[error("cannot read the key file {}: {source}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The system gives no random numbers.
    #[error("the operating system gave no random numbers, which keys and nonces need")]
    Random,
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(hidden)")
    }
}

impl SecretKey {
    /// Returns the key with these bytes.
    pub fn new(bytes: [u8; KEY_LEN]) -> SecretKey {
        SecretKey(bytes)
    }

    /// Reads the key from the text of a file: hexadecimal or base64, with white space around it.
    pub fn from_file(path: &Path) -> Result<SecretKey, KeyError> {
        let read = || {
            use io::Read as _;
            let mut text = String::new();
            let file = std::fs::File::open(path)?;
            file.take(MAX_KEY_TEXT).read_to_string(&mut text)?;
            Ok::<String, io::Error>(text)
        };
        match read() {
            Ok(text) => parse(&text, &path.display().to_string()),
            // Raw bytes, for instance.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                parse("", &path.display().to_string())
            }
            Err(source) => Err(KeyError::File {
                path: path.to_owned(),
                source,
            }),
        }
    }

    /// Reads the key from a variable of the environment: hexadecimal or base64.
    pub fn from_env(variable: &str) -> Result<SecretKey, KeyError> {
        match std::env::var(variable) {
            Ok(text) => parse(&text, variable),
            Err(std::env::VarError::NotPresent) => Err(KeyError::NotSet(variable.to_owned())),
            Err(std::env::VarError::NotUnicode(_)) => parse("", variable),
        }
    }
}

fn parse(text: &str, source_name: &str) -> Result<SecretKey, KeyError> {
    let text = text.trim();
    let bytes = hexadecimal(text).or_else(|| {
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(text)
            .ok()?;
        bytes.try_into().ok()
    });
    bytes.map(SecretKey).ok_or_else(|| KeyError::Text {
        source_name: source_name.to_owned(),
    })
}

fn hexadecimal(text: &str) -> Option<[u8; KEY_LEN]> {
    if text.len() != 2 * KEY_LEN {
        return None;
    }
    let mut key = [0; KEY_LEN];
    for (byte, digits) in key.iter_mut().zip(text.as_bytes().chunks(2)) {
        let digit = |at: usize| char::from(digits[at]).to_digit(16);
        *byte = (digit(0)? << 4 | digit(1)?) as u8;
    }
    Some(key)
}

/// Returns a random number for an opening of an archive.
pub fn random_nonce() -> Result<Nonce, KeyError> {
    Ok(Nonce(u128::from_le_bytes(random()?)))
}

/// Returns random bytes of the operating system.
pub(super) fn random<const N: usize>() -> Result<[u8; N], KeyError> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| KeyError::Random)?;
    Ok(bytes)
}

/// Cipher of one archive.
#[derive(Debug, Clone)]
pub(super) struct Cipher(Prk);

struct Len(usize);

impl KeyType for Len {
    fn len(&self) -> usize {
        self.0
    }
}

impl Cipher {
    pub(super) fn new(key: &SecretKey, salt: &[u8; SALT_LEN]) -> Cipher {
        Cipher(Salt::new(HKDF_SHA256, salt).extract(&key.0))
    }

    /// Returns the value that reveals a wrong key before anything is read or written with it.
    pub(super) fn key_check(&self) -> Result<[u8; KEY_CHECK_LEN], Reject> {
        self.derive(&[b"logforce archive key check"])
    }

    /// Encrypts a payload in place and returns its tag. A seed serves one payload.
    pub(super) fn seal(
        &self,
        seed: &[u8; 24],
        header: &[u8; HEADER_LEN],
        payload: &mut [u8],
    ) -> Result<[u8; TAG_LEN], Reject> {
        let (key, nonce) = self.object_key(seed)?;
        let tag = key
            .seal_in_place_separate_tag(nonce, Aad::from(header), payload)
            .map_err(|_| Reject::Contradiction)?;
        let mut bytes = [0; TAG_LEN];
        bytes.copy_from_slice(tag.as_ref());
        Ok(bytes)
    }

    /// Decrypts a payload with its tag in place and returns the length of the payload.
    pub(super) fn open(
        &self,
        seed: &[u8; 24],
        header: &[u8; HEADER_LEN],
        payload: &mut [u8],
    ) -> Result<usize, Reject> {
        let (key, nonce) = self.object_key(seed)?;
        let opened = key.open_in_place(nonce, Aad::from(header), payload);
        Ok(opened.map_err(|_| Reject::Forged)?.len())
    }

    fn object_key(&self, seed: &[u8; 24]) -> Result<(LessSafeKey, aead::Nonce), Reject> {
        let bytes: [u8; KEY_LEN] = self.derive(&[b"logforce archive object", &seed[..12]])?;
        let key = UnboundKey::new(&AES_256_GCM, &bytes).map_err(|_| Reject::WrongKey)?;
        let nonce = aead::Nonce::try_assume_unique_for_key(&seed[12..])
            .map_err(|_| Reject::Contradiction)?;
        Ok((LessSafeKey::new(key), nonce))
    }

    fn derive<const N: usize>(&self, info: &[&[u8]]) -> Result<[u8; N], Reject> {
        let mut bytes = [0; N];
        let derived = self.0.expand(info, Len(N));
        let filled = derived.and_then(|derived| derived.fill(&mut bytes));
        filled.map_err(|_| Reject::WrongKey)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F";

    #[test]
    fn a_key_is_read_as_hexadecimal_or_base64() {
        let expected: [u8; KEY_LEN] = std::array::from_fn(|i| i as u8);
        let base64 = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
        for text in [HEX, base64, &format!("  {HEX}\n")] {
            assert_eq!(parse(text, "test").unwrap().0, expected, "{text}");
        }
        for text in [
            "",
            &HEX[1..],
            &format!("{HEX}00"),
            &HEX.replace('0', "g"),
            &base64[4..],
        ] {
            let error = parse(text, "KEY").unwrap_err().to_string();
            assert!(error.contains("KEY is not 32 bytes"), "{error}");
        }
    }

    #[test]
    fn a_key_is_in_no_output_and_in_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, HEX).unwrap();
        let key = SecretKey::from_file(&path).unwrap();
        assert_eq!(format!("{key:?}"), "SecretKey(hidden)");
        std::fs::write(&path, [0xff; 32]).unwrap();
        assert!(matches!(
            SecretKey::from_file(&path),
            Err(KeyError::Text { .. })
        ));
        let absent = SecretKey::from_file(&dir.path().join("absent")).unwrap_err();
        assert!(absent.to_string().contains("absent"), "{absent}");
        let unset = SecretKey::from_env("LOGFORCE_TEST_NOT_SET").unwrap_err();
        assert!(unset.to_string().contains("is not set"), "{unset}");
    }
}
