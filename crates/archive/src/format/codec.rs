//! Envelope: from a header and a payload to the bytes of an object, and back.

use super::crypt::{Cipher, SecretKey, TAG_LEN, random};
use super::facts;
use super::header::{self, HEADER_LEN, Head, Kind, Stored};
use super::identity::Identity;
use super::log_part::{LogPart, MAX_BODY_LEN, StoredLog};
use super::points::Point;
use super::reject::Reject;
use crate::key::Key;
use crate::object::{Object, Part};
use bytes::{Bytes, BytesMut};
use logforce::LogId;
use std::fmt;
use zstd_safe::zstd_sys::ZSTD_EndDirective::ZSTD_e_end;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, compress_bound};

/// Compression level: the fastest of zstd's regular ones, because an upload must keep up with the log.
const LEVEL: i32 = 1;
/// Samples by which a large slice is judged, and the length of each in bytes.
const SAMPLES: usize = 16;
const SAMPLE: usize = 8 << 10;
/// Largest payload of an object without a part of the log, in bytes.
const MAX_NOTE_LEN: u64 = 1024;
/// Largest payload of a part of a base copy, in bytes.
pub const MAX_PART_LEN: u64 = 32 << 20;
/// Length of the beginning of an object that [`Codec::peek`] needs.
pub const PEEK_LEN: u64 = HEADER_LEN as u64 + MAX_NOTE_LEN + TAG_LEN as u64;

/// Reader and maker of the objects of one archive.
#[derive(Debug, Clone)]
pub struct Codec {
    log_id: LogId,
    cipher: Option<Cipher>,
}

impl Codec {
    /// Returns the codec of an archive. Fails if the key is missing, wrong or not needed.
    pub fn new(identity: &Identity, key: Option<&SecretKey>) -> Result<Codec, Reject> {
        Ok(Codec {
            log_id: identity.log_id,
            cipher: identity.cipher(key)?,
        })
    }

    /// Returns the log of the archive.
    pub fn log_id(&self) -> LogId {
        self.log_id
    }

    /// Returns the largest object that a reader of this version accepts, in bytes.
    pub const fn max_object_len() -> u64 {
        HEADER_LEN as u64 + MAX_BODY_LEN + TAG_LEN as u64
    }

    /// Returns an encoder of parts of the log. It keeps its memory for the next one.
    pub fn encoder(&self) -> Encoder {
        Encoder {
            codec: self.clone(),
            zstd: None,
        }
    }

    /// Returns the bytes of an object without a part of the log. The identity has a codec for itself.
    pub fn encode(&self, object: &Object) -> Result<Bytes, Reject> {
        let (head, note) = facts::split(self.log_id, object);
        let len = note.len() as u64;
        if len > MAX_NOTE_LEN {
            return Err(Reject::TooLarge {
                what: "the name in it",
                len,
                max: MAX_NOTE_LEN,
            });
        }
        if head.kind.has_body() || head.kind == Kind::Identity {
            return Err(Reject::Contradiction);
        }
        let mut bytes = Vec::with_capacity(HEADER_LEN + note.len() + TAG_LEN);
        bytes.resize(HEADER_LEN, 0);
        bytes.extend_from_slice(note);
        self.finish(&head, len, false, bytes)
    }

    /// Reads an object, or the first [`PEEK_LEN`] bytes of it.
    ///
    /// Reads and confirms only the header of a chunk, a segment or a part of a base copy. It has a checksum,
    /// but its authentication needs the whole object.
    pub fn peek(&self, key: &Key, bytes: Bytes) -> Result<Object, Reject> {
        let (head, _) = self.header(&bytes)?;
        if head.kind.has_body() {
            return facts::join(key, &head, &[]);
        }
        let (head, note) = self.open(bytes)?;
        facts::join(key, &head, &note)
    }

    /// Reads a chunk or a segment. Fails for other kinds.
    pub fn decode(&self, key: &Key, bytes: Bytes) -> Result<(Object, StoredLog), Reject> {
        let (head, _) = self.header(&bytes)?;
        if !head.kind.has_log() {
            return Err(Reject::NoLog);
        }
        let object = facts::join(key, &head, &[])?;
        let (_, body) = self.open(bytes)?;
        let mut log = StoredLog::parse(head.from, head.to, body)?;
        if facts::is_copied_chunk(key, &head) && log.points.is_empty() {
            let (time, lsn) = (head.time, head.to);
            log.points.push(Point { time, lsn });
        }
        Ok((object, log))
    }

    /// Returns the time in the header of an object: the latest one in a segment.
    pub fn time(&self, key: &Key, bytes: &Bytes) -> Result<u64, Reject> {
        self.peek(key, bytes.clone())?;
        Ok(self.header(bytes)?.0.time)
    }

    /// Reads a part of a base copy. Returns its payload.
    pub fn decode_part(&self, key: &Key, bytes: Bytes) -> Result<(Part, Bytes), Reject> {
        let (head, _) = self.header(&bytes)?;
        if head.kind != Kind::Part {
            return Err(Reject::Misplaced);
        }
        match facts::join(key, &head, &[])? {
            Object::Part(part) => Ok((part, self.open(bytes)?.1)),
            _ => Err(Reject::Misplaced),
        }
    }

    fn header(&self, bytes: &[u8]) -> Result<(Head, Stored), Reject> {
        let (head, stored) = header::decode(bytes)?;
        if head.log_id != self.log_id {
            return Err(Reject::OtherLog {
                found: head.log_id,
                expected: self.log_id,
            });
        }
        Ok((head, stored))
    }

    /// Confirms that an object is whole, and returns its header and its payload, decrypted and decompressed.
    ///
    /// Memory beyond `bytes` is taken only for a payload of a length that this kind may have.
    fn open(&self, bytes: Bytes) -> Result<(Head, Bytes), Reject> {
        let (head, stored) = self.header(&bytes)?;
        let len = bytes.len() as u64;
        let expected = stored.stored_len.saturating_add(HEADER_LEN as u64);
        if len != expected {
            return Err(Reject::Length { len, expected });
        }
        let max = match head.kind {
            kind if kind.has_log() => MAX_BODY_LEN,
            Kind::Part => MAX_PART_LEN,
            _ => MAX_NOTE_LEN,
        };
        if stored.body_len > max {
            return Err(Reject::TooLarge {
                what: "the payload",
                len: stored.body_len,
                max,
            });
        }
        let payload = bytes.slice(HEADER_LEN..);
        drop(bytes);
        if crc32c::crc32c(&payload) != stored.checksum {
            return Err(Reject::PayloadChecksum);
        }
        let payload = match (&self.cipher, &stored.seed) {
            (None, None) => payload,
            (None, Some(_)) => return Err(Reject::NoKey),
            // Otherwise a program without the key could put plain objects among encrypted ones.
            (Some(_), None) => return Err(Reject::NotEncrypted),
            (Some(cipher), Some(seed)) => {
                let mut payload = BytesMut::from(payload);
                let len = cipher.open(seed, &header::bare(&head, &stored), &mut payload)?;
                payload.truncate(len);
                payload.freeze()
            }
        };
        let body = if stored.is_compressed {
            decompress(&payload, stored.body_len as usize)?
        } else {
            payload
        };
        if body.len() as u64 != stored.body_len {
            return Err(Reject::Compression);
        }
        Ok((head, body))
    }

    /// Encrypts the payload behind the space for the header, and writes the header.
    fn finish(
        &self,
        head: &Head,
        body_len: u64,
        is_compressed: bool,
        mut object: Vec<u8>,
    ) -> Result<Bytes, Reject> {
        let payload_len = (object.len() - HEADER_LEN) as u64;
        let mut stored = Stored {
            body_len,
            stored_len: payload_len,
            checksum: 0,
            is_compressed,
            seed: None,
        };
        if let Some(cipher) = &self.cipher {
            let seed = random().map_err(|_| Reject::NoRandom)?;
            stored.seed = Some(seed);
            stored.stored_len += TAG_LEN as u64;
            let header = header::bare(head, &stored);
            let tag = cipher.seal(&seed, &header, &mut object[HEADER_LEN..])?;
            object.extend_from_slice(&tag);
        }
        let checksum = crc32c::crc32c(&object[HEADER_LEN..]);
        let header = header::finish(header::bare(head, &stored), checksum);
        object[..HEADER_LEN].copy_from_slice(&header);
        Ok(object.into())
    }
}

/// Encoder of parts of the log, for one thread.
pub struct Encoder {
    codec: Codec,
    zstd: Option<CCtx<'static>>,
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Encoder").field(&self.codec).finish()
    }
}

impl Encoder {
    /// Returns the bytes of a chunk or a segment.
    ///
    /// The log is read once, by the compressor, which writes to the object's own memory. Each slice becomes
    /// one frame of zstd. If that saves nothing, the payload is stored as it is.
    pub fn encode(&mut self, object: &Object, part: &LogPart<'_>) -> Result<Bytes, Reject> {
        part.check()?;
        let (mut head, _) = facts::split(self.codec.log_id, object);
        if head.kind == Kind::Segment {
            head.time = part.points.last().map_or(0, |point| point.time);
        }
        if !head.kind.has_log() || head.to.since(head.from) != part.log_len() {
            return Err(Reject::Contradiction);
        }
        let prefix = part.prefix();
        let slices: Vec<&[u8]> = std::iter::once(&prefix[..])
            .chain(part.log.iter().copied())
            .collect();
        self.encode_body(&head, &slices)
    }

    /// Returns the bytes of a part of a base copy.
    pub fn encode_part(&mut self, part: Part, body: &[u8]) -> Result<Bytes, Reject> {
        let len = body.len() as u64;
        if len > MAX_PART_LEN {
            let (what, max) = ("the part", MAX_PART_LEN);
            return Err(Reject::TooLarge { what, len, max });
        }
        let (head, _) = facts::split(self.codec.log_id, &Object::Part(part));
        self.encode_body(&head, &[body])
    }

    fn encode_body(&mut self, head: &Head, slices: &[&[u8]]) -> Result<Bytes, Reject> {
        let body_len: u64 = slices.iter().map(|slice| slice.len() as u64).sum();
        let slices = || slices.iter().copied();
        let bound: usize = slices().map(|slice| compress_bound(slice.len())).sum();
        let mut bytes = Vec::with_capacity(HEADER_LEN + bound + TAG_LEN);
        bytes.resize(HEADER_LEN, 0);
        if self.may_shrink(slices(), body_len)? {
            for slice in slices() {
                self.compress(slice, &mut bytes)?;
            }
        } else {
            slices().for_each(|slice| bytes.extend_from_slice(slice));
        }
        let is_compressed = ((bytes.len() - HEADER_LEN) as u64) < body_len;
        if !is_compressed {
            bytes.truncate(HEADER_LEN);
            slices().for_each(|slice| bytes.extend_from_slice(slice));
        }
        self.codec.finish(head, body_len, is_compressed, bytes)
    }

    /// Returns false if one slice is nearly all of the payload, and samples of it do not shrink: then the
    /// compression, which takes most of the time of an upload, is left out.
    fn may_shrink<'a>(
        &mut self,
        slices: impl Iterator<Item = &'a [u8]>,
        body_len: u64,
    ) -> Result<bool, Reject> {
        let largest = slices.max_by_key(|slice| slice.len()).unwrap_or_default();
        let stride = largest.len() / SAMPLES;
        if stride < 2 * SAMPLE || (largest.len() as u64) < body_len / 8 * 7 {
            return Ok(true);
        }
        let samples: Vec<u8> = largest
            .chunks(stride)
            .flat_map(|part| &part[..part.len().min(SAMPLE)])
            .copied()
            .collect();
        let mut compressed = Vec::with_capacity(compress_bound(samples.len()));
        self.compress(&samples, &mut compressed)?;
        Ok(compressed.len() < samples.len() / 32 * 31)
    }

    /// Appends a frame. The space for it was reserved, so that zstd makes it in one pass.
    fn compress(&mut self, slice: &[u8], object: &mut Vec<u8>) -> Result<(), Reject> {
        let zstd = match &mut self.zstd {
            Some(zstd) => zstd,
            none => {
                let mut zstd = CCtx::try_create().ok_or(Reject::NoMemory)?;
                let set = zstd.set_parameter(CParameter::CompressionLevel(LEVEL));
                set.map_err(|_| Reject::NoMemory)?;
                none.insert(zstd)
            }
        };
        let at = object.len();
        let mut out = OutBuffer::around_pos(object, at);
        let left = zstd.compress_stream2(&mut out, &mut InBuffer::around(slice), ZSTD_e_end);
        if left != Ok(0) {
            self.zstd = None;
            return Err(Reject::NoMemory);
        }
        Ok(())
    }
}

fn decompress(payload: &[u8], len: usize) -> Result<Bytes, Reject> {
    let mut body = Vec::with_capacity(len);
    zstd_safe::decompress(&mut body, payload).map_err(|_| Reject::Compression)?;
    Ok(body.into())
}
