//! Identity of an archive: its log, and how it is encrypted.

use super::crypt::{Cipher, KEY_CHECK_LEN, KeyError, SALT_LEN, SecretKey, random};
use super::facts;
use super::header::{self, HEADER_LEN, Head, Kind, Stored};
use super::reject::Reject;
use crate::object::{self, Nonce, Object};
use bytes::Bytes;
use logforce::{LogId, Lsn};

const PLAIN: u8 = 0;
const AES_256_GCM: u8 = 1;
const ENCRYPTED_LEN: usize = 1 + SALT_LEN + KEY_CHECK_LEN;

/// First object of an archive. It is never encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Log of the archive.
    pub log_id: LogId,
    /// Start of the archive: the front of the log when it was created.
    pub start: Lsn,
    /// Creation: nanoseconds since 1970.
    pub time: u64,
    /// Random number by which the hold of a log names the archive.
    pub id: u128,
    encryption: Option<Encryption>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Encryption {
    salt: [u8; SALT_LEN],
    key_check: [u8; KEY_CHECK_LEN],
}

impl Identity {
    /// Returns the identity of a new archive, which is encrypted if there is a key.
    pub fn new(
        log_id: LogId,
        start: Lsn,
        time: u64,
        key: Option<&SecretKey>,
    ) -> Result<Identity, KeyError> {
        let encryption = match key {
            None => None,
            Some(key) => {
                let salt = random()?;
                let check = Cipher::new(key, &salt).key_check();
                Some(Encryption {
                    salt,
                    key_check: check.map_err(|_| KeyError::Random)?,
                })
            }
        };
        Ok(Identity {
            log_id,
            start,
            time,
            id: u128::from_le_bytes(random()?),
            encryption,
        })
    }

    /// Returns the object of the protocol.
    pub fn object(&self) -> Object {
        Object::Identity(object::Identity {
            log: self.log_id,
            start: self.start,
        })
    }

    /// Returns true if the objects of the archive are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.encryption.is_some()
    }

    /// Returns the cipher of the archive; none if the archive is not encrypted.
    pub(super) fn cipher(&self, key: Option<&SecretKey>) -> Result<Option<Cipher>, Reject> {
        match (&self.encryption, key) {
            (None, None) => Ok(None),
            (None, Some(_)) => Err(Reject::PlainArchive),
            (Some(_), None) => Err(Reject::NoKey),
            (Some(encryption), Some(key)) => {
                let cipher = Cipher::new(key, &encryption.salt);
                if cipher.key_check()? != encryption.key_check {
                    return Err(Reject::WrongKey);
                }
                Ok(Some(cipher))
            }
        }
    }

    /// Returns the bytes of the object.
    pub fn encode(&self) -> Bytes {
        let mut payload = Vec::with_capacity(ENCRYPTED_LEN);
        match &self.encryption {
            None => payload.push(PLAIN),
            Some(encryption) => {
                payload.push(AES_256_GCM);
                payload.extend_from_slice(&encryption.salt);
                payload.extend_from_slice(&encryption.key_check);
            }
        }
        let head = Head {
            time: self.time,
            nonce: Nonce(self.id),
            ..facts::split(self.log_id, &self.object()).0
        };
        let stored = Stored {
            body_len: payload.len() as u64,
            stored_len: payload.len() as u64,
            checksum: 0,
            is_compressed: false,
            seed: None,
        };
        let checksum = crc32c::crc32c(&payload);
        let header = header::finish(header::bare(&head, &stored), checksum);
        [&header[..], &payload].concat().into()
    }

    /// Reads the object.
    pub fn decode(bytes: &[u8]) -> Result<Identity, Reject> {
        let (head, stored) = header::decode(bytes)?;
        if head.kind != Kind::Identity {
            return Err(Reject::Misplaced);
        }
        let payload = &bytes[HEADER_LEN..];
        if payload.len() as u64 != stored.stored_len {
            return Err(Reject::Length {
                len: bytes.len() as u64,
                expected: stored.stored_len.saturating_add(HEADER_LEN as u64),
            });
        }
        if crc32c::crc32c(payload) != stored.checksum {
            return Err(Reject::PayloadChecksum);
        }
        let encryption = match payload.split_first() {
            Some((&PLAIN, [])) => None,
            Some((&AES_256_GCM, rest)) if rest.len() == SALT_LEN + KEY_CHECK_LEN => {
                let (mut salt, mut key_check) = ([0; SALT_LEN], [0; KEY_CHECK_LEN]);
                salt.copy_from_slice(&rest[..SALT_LEN]);
                key_check.copy_from_slice(&rest[SALT_LEN..]);
                Some(Encryption { salt, key_check })
            }
            _ => return Err(Reject::Payload),
        };
        let identity = Identity {
            log_id: head.log_id,
            start: head.from,
            time: head.time,
            id: head.nonce.0,
            encryption,
        };
        let rest = Head {
            time: 0,
            nonce: Nonce(0),
            ..head
        };
        if facts::split(head.log_id, &identity.object()).0 != rest {
            return Err(Reject::Reserved);
        }
        Ok(identity)
    }
}
