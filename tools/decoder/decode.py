#!/usr/bin/env python3
"""A reader of Logforce's logs, written from docs/format.md and not from the code.

    decode.py [--salvage] LOGDIR...     prints a line of JSON for each log
    decode.py [--salvage] < LINES       likewise, for the directory that each line names; or of a
                                        single one: --salvage LOGDIR

Standard library only. It is slow and holds every file in memory: its use is to say what the page says.
The test `second_decoder` of crates/cli holds it against `logforce dump`. Headings of the page are
quoted in front of what follows from them.
"""

import json
import os
import re
import struct
import sys

# --- Constants

VERSION = 1
MAX_BATCH_LEN = 16777216
MAX_RECORD_LEN = 67108864
MIN_WRITE_UNIT, MAX_WRITE_UNIT = 512, 65536
MIN_SEGMENT_LEN, MAX_SEGMENT_LEN = 16384, 4294967296
SLOT_LEN = 4096
CONTROL_SLOTS = (0, 65536)
META_SLOTS = (131072, 196608)
MAX_META_LEN = 4000
EPOCH_HISTORY = 128
COUNTED_TO = 1 << 63
NO_EPOCH = (0, 0)


# --- Checksums

TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    TABLE.append(byte)
KNOWN_CRCS = {}


def crc32c(data):
    """CRC-32C; remembered, since many logs in a run are alike."""
    data = bytes(data)
    crc = KNOWN_CRCS.get(data)
    if crc is None:
        crc = 0xFFFFFFFF
        for byte in data:
            crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
        crc ^= 0xFFFFFFFF
        KNOWN_CRCS[data] = crc
    return crc


def is_sealed(data):
    """The checksum at offset 8 is right; its own four bytes count as zero."""
    return u32(data, 8) == crc32c(data[:8] + bytes(4) + data[12:])


def u16(data, at):
    return struct.unpack_from("<H", data, at)[0]


def u32(data, at):
    return struct.unpack_from("<I", data, at)[0]


def u64(data, at):
    return struct.unpack_from("<Q", data, at)[0]


def epoch_at(data, at):
    return struct.unpack_from("<QQ", data, at)


def is_zero(data):
    return not any(data)


def round_up(n, unit):
    return -(-n // unit) * unit


class Refused(Exception):
    """Nothing of the log is read."""

    def __init__(self, why, lsn=None, case=None):
        super().__init__(why)
        self.report = {"error": why, "lsn": lsn, "case": case}


# --- The stream and the segments


class Segment:
    def __init__(self, name, data, log_id, start, length, unit, epoch):
        self.name, self.data, self.log_id = name, data, log_id
        self.start, self.len, self.unit, self.epoch = start, length, unit, epoch
        self.end = start + length
        self.first_batch = start + max(4096, unit)

    def get(self, lsn, n):
        """`n` bytes at `lsn`, or None where the file ends before."""
        at = lsn - self.start
        return self.data[at : at + n] if at + n <= len(self.data) else None


def geometry_is_valid(start, length, unit):
    return (
        MIN_WRITE_UNIT <= unit <= MAX_WRITE_UNIT
        and unit & (unit - 1) == 0
        and MIN_SEGMENT_LEN <= length <= MAX_SEGMENT_LEN
        and length % unit == 0
        and length >= 2 * max(4096, unit)
        and start % MIN_WRITE_UNIT == 0
        and start + length < 1 << 64
    )


def segment_of(name, data):
    """The segment whose header stands in `data`, or None."""
    if len(data) < 128 or data[:6] != b"LFSEGM" or not is_sealed(data[:128]):
        return None
    if u16(data, 6) > VERSION:
        raise Refused("newer")
    start, length, unit = u64(data, 32), u64(data, 40), u32(data, 12)
    if u16(data, 6) != VERSION or data[64] > 1 or not is_zero(data[65:128]):
        return None
    if not geometry_is_valid(start, length, unit):
        return None
    return Segment(name, data, data[16:32], start, length, unit, epoch_at(data, 48))


# --- Batches

KINDS = {1: "data", 2: "stamp", 3: "epoch", 4: "void"}


class Batch:
    def __init__(self, b):
        self.crc, self.payload_crc, self.log_id = u32(b, 8), u32(b, 12), b[16:32]
        self.lsn, self.epoch, self.stamp = u64(b, 32), epoch_at(b, 40), u64(b, 56)
        self.void_from, self.last_void = u64(b, 64), u64(b, 72)
        self.prev_crc, self.payload_len = u32(b, 80), u32(b, 84)
        self.kind, self.frames = KINDS.get(b[88]), u32(b, 92)
        self.prev_epoch = epoch_at(b, 96)

    def voids(self):
        return self.void_from < self.lsn

    def end(self, unit):
        return self.lsn + round_up(128 + self.payload_len, unit)


def decode_batch(b):
    """A batch, or what its bytes are seen as."""
    if b[:6] != b"LFBTCH":
        return "blank" if is_zero(b) else "stale"
    if not is_sealed(b) or u16(b, 6) != VERSION:
        return "broken"
    h = Batch(b)
    if h.kind is None or not is_zero(b[89:92]) or not is_zero(b[112:128]):
        return "broken"
    carries = h.kind == "data"
    if h.payload_len > MAX_BATCH_LEN - 128:
        return "broken"
    if (h.payload_len > 0) != carries or (h.frames > 0) != carries:
        return "broken"
    if h.stamp > h.lsn or h.void_from > h.lsn or h.last_void >= h.lsn:
        return "broken"
    if h.kind == "void" and not h.voids() or h.kind in ("data", "stamp") and h.voids():
        return "broken"
    if h.kind == "epoch":
        fits = h.prev_epoch[0] < h.epoch[0]
    else:
        fits = h.prev_epoch == NO_EPOCH and h.epoch[0] >= 1
    return h if fits else "broken"


# --- Records

FIRST, LAST, JOINED, FOLLOWS = 1, 2, 4, 8


class Frame:
    def __init__(self, lsn, flags, data, end):
        self.lsn, self.flags, self.data, self.end = lsn, flags, data, end


def frames_of(batch, payload):
    """The frames of a payload, or None where they are malformed."""
    frames, at, base = [], 0, batch.lsn + 128
    while at < len(payload):
        if at + 8 > len(payload):
            return None
        n, flags = u32(payload, at), payload[at + 4]
        end = at + 8 + round_up(n, 8)
        if flags & 0xF0 or not is_zero(payload[at + 5 : at + 8]) or end > len(payload):
            return None
        if n == 0 and flags & (FIRST | LAST) != FIRST | LAST:
            return None
        if not is_zero(payload[at + 8 + n : end]):
            return None
        frames.append(Frame(base + at, flags, payload[at + 8 : at + 8 + n], base + end))
        at = end
    return frames if len(frames) == batch.frames else None


UNKNOWN = "unknown"


class Open:
    """An append that is begun and not ended."""

    def __init__(self, start, inside, flags, size):
        self.start, self.inside, self.flags, self.size = start, inside, flags, size


def push(opened, frame):
    """What is open after a frame; raises ValueError where it does not fit."""
    first, follows = frame.flags & FIRST, frame.flags & FOLLOWS
    if opened is UNKNOWN:
        if not first:
            return UNKNOWN
        opened = Open(frame.lsn, False, 0, 0) if follows else None
    same = JOINED | FOLLOWS
    if opened is None:
        fits = first and not follows
    elif opened.inside:
        fits = not first and opened.flags & same == frame.flags & same
    else:
        fits = first and follows
    size = (opened.size if opened else 0) + len(frame.data) + (8 if first else 0)
    if not fits or size > MAX_RECORD_LEN + 8:
        raise ValueError
    if frame.flags & LAST and not frame.flags & JOINED:
        return None
    start = opened.start if opened else frame.lsn
    return Open(start, not frame.flags & LAST, frame.flags, size)


# --- The control file


class Control:
    pass


def control_slot(data):
    """A slot, or why there is none: "magic" or "broken"."""
    if len(data) < SLOT_LEN or data[:6] != b"LFCTRL":
        return "magic"
    if not is_sealed(data):
        return "broken"
    if u16(data, 6) > VERSION:
        raise Refused("newer")
    c = Control()
    c.clean, c.has_meta, kept = u32(data, 12), u32(data, 104), u32(data, 128)
    if u16(data, 6) != VERSION or c.clean > 1 or c.has_meta > 1 or kept > EPOCH_HISTORY:
        return "broken"
    reserved = data[108:112] + data[132:136] + data[144:256] + data[256 + 16 * kept :]
    if not is_zero(reserved):
        return "broken"
    c.log_id, c.sequence, c.front = data[16:32], u64(data, 32), u64(data, 40)
    c.first_segment, c.prepared_end = u64(data, 48), u64(data, 56)
    c.write_limit = u64(data, 136)
    c.first_prev_crc, c.anchor_crc = u32(data, 64), u32(data, 68)
    c.anchor, c.anchor_epoch, c.anchor_void = u64(data, 72), epoch_at(data, 80), u64(data, 96)
    c.epoch = epoch_at(data, 112)
    c.history = [epoch_at(data, 256 + 16 * i) for i in range(kept)]
    counters = [c.epoch[0]] + [e[0] for e in c.history]
    ordered = (
        c.first_segment <= c.front <= c.anchor <= c.prepared_end
        and (c.write_limit == 0 or c.anchor <= c.write_limit <= c.prepared_end)
        and c.anchor_void <= c.anchor
        and c.anchor_epoch[0] <= c.epoch[0]
        and all(a > b for a, b in zip(counters, counters[1:]))
    )
    return c if ordered else "broken"


def load_control(files):
    data = files.get("control")
    if data is None:
        raise Refused("no-log")
    slots = [control_slot(data[at : at + SLOT_LEN]) for at in CONTROL_SLOTS]
    valid = [s for s in slots if isinstance(s, Control)]
    if not valid:
        if slots == ["magic", "magic"]:
            raise Refused("not-a-log")
        raise Refused("damaged", 0, "damaged")
    # Of equal ones the first: max takes the first of equals.
    c = max(valid, key=lambda s: s.sequence)
    c.both = len(valid) == 2
    c.is_known = True
    return c


# --- Metadata


def meta_slot(data, log_id):
    """(sequence, bytes), "absent" or "broken"."""
    if is_zero(data):
        return "absent"
    if len(data) < SLOT_LEN or data[:6] != b"LFMETA" or not is_sealed(data):
        return "broken"
    n, sequence = u32(data, 12), u64(data, 32)
    if u16(data, 6) != VERSION or n > MAX_META_LEN or sequence == 0 or data[16:32] != log_id:
        return "broken"
    if not is_zero(data[40:96]) or not is_zero(data[96 + n :]):
        return "broken"
    return (sequence, data[96 : 96 + n])


def load_meta(files, c):
    """(bytes or None, both slots agree, it is lost)"""
    data = files.get("control", b"")
    a, b = (meta_slot(data[at : at + SLOT_LEN], c.log_id) for at in META_SLOTS)
    valid = [s for s in (a, b) if isinstance(s, tuple)]
    if valid:
        return max(valid, key=lambda s: s[0])[1], a == b, False
    is_never = not c.has_meta and b == "absent"
    return None, is_never and c.is_known, not is_never


# --- Void ranges


class Ranges:
    """Ranges, those that touch as one."""

    def __init__(self, ranges=()):
        self.all = list(ranges)

    def add(self, start, end):
        if start >= end:
            return
        apart = [(a, b) for a, b in self.all if b < start or a > end]
        for a, b in self.all:
            if not (b < start or a > end):
                start, end = min(start, a), max(end, b)
        self.all = sorted(apart + [(start, end)])

    def covering(self, lsn):
        return next(((a, b) for a, b in self.all if a <= lsn < b), None)

    def begins(self, lsn):
        return any(a == lsn for a, _ in self.all)


# --- The next batch


class State:
    """What is known at a boundary. None: unknown; of `opened`, nothing is open."""

    def __init__(self, at, epoch=None, crc=None, last_void=None, opened=UNKNOWN):
        self.at, self.epoch, self.crc = at, epoch, crc
        self.last_void, self.opened = last_void, opened

    def moved(self, at):
        return State(at, self.epoch, self.crc, self.last_void, None)


class Stop(Exception):
    """There is no next batch."""

    def __init__(self, at, seen):
        super().__init__(seen)
        self.at, self.seen = at, seen


class Damage:
    def __init__(self, lsn, case):
        self.lsn, self.case = lsn, case


class End:
    """Where an opening's reading ends."""

    def __init__(self, state, case, lost, trusted, durable_to):
        self.state, self.case, self.lost = state, case, lost
        self.trusted, self.durable_to = trusted, durable_to


SEGMENT_NAME = re.compile(r"([0-9a-fA-F]{16})\.seg")


class Log:
    def __init__(self, path, salvage=False):
        self.files = {}
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False):
                    with open(entry.path, "rb") as file:
                        self.files[entry.name] = file.read()
        self.regained = []
        try:
            self.control = load_control(self.files)
            self.take_stock(salvage)
        except Refused as refused:
            if not salvage or refused.report["error"] == "newer":
                raise
            self.without_control()
        self.meta, self.meta_whole, self.meta_lost = load_meta(self.files, self.control)

    # --- What must be there

    def list(self, log_id, salvage):
        """The valid segments, and the names of files with a damaged header."""
        valid, self.strays = [], []
        for name in sorted(self.files):
            m = SEGMENT_NAME.fullmatch(name)
            if not m:
                continue
            s = segment_of(name, self.files[name])
            if s is None or s.log_id != log_id or len(s.data) < s.len:
                self.strays.append(name)
            else:
                valid.append((int(m[1], 16) != s.start, name, s))
        self.segments = []
        for _, name, s in sorted(valid, key=lambda w: w[:2]):
            if not any(o.start < s.end and s.start < o.end for o in self.segments):
                self.segments.append(s)
            elif salvage:
                self.strays.append(name)
            else:
                raise Refused("damaged", s.start, "segment-lost")
        self.segments.sort(key=lambda s: s.start)

    def take_stock(self, salvage):
        c = self.control
        self.list(c.log_id, salvage)
        promised = end = c.prepared_end
        for s in self.segments:
            if s.start >= promised:
                h = self.header_at(s, s.first_batch)
                if h is not None or (not c.both and s.start == end):
                    end = s.end
        if end != promised or not c.both:
            c.write_limit = 0
        c.prepared_end = end
        if self.gaps() or not c.both:
            for s in list(self.segments):
                if s.end <= c.first_segment and int(s.name[:16], 16) != s.start:
                    self.segments.remove(s)
                    self.strays.append(s.name)
        self.regain(c.log_id, c.first_segment, end)
        if salvage:
            return
        for bound in (c.first_segment, end):
            across = any(
                s.start < bound < s.end for s in self.segments if s.name not in self.regained
            )
            if bound % MIN_WRITE_UNIT or across:
                raise Refused("damaged", bound, "segment-lost")
        for s in self.segments:
            if s.name not in self.regained and s.start < c.anchor <= s.first_batch:
                raise Refused("damaged", c.anchor, "segment-lost")
        if max(c.sequence, end, c.epoch[0]) >= COUNTED_TO:
            raise Refused("damaged", 0, "damaged")

    def gaps(self):
        gaps, at = [], self.control.first_segment
        for s in self.segments:
            if at < s.start and at < self.control.prepared_end:
                gaps.append(at)
            at = max(at, s.end)
        return gaps + [at] if at < self.control.prepared_end else gaps

    def holding(self, lsn):
        return next((s for s in self.segments if s.start <= lsn < s.end), None)

    def header_at(self, segment, lsn):
        """The header of this log that lies at `lsn`, or None."""
        data = segment.get(lsn, 128)
        h = decode_batch(data) if data else None
        is_it = isinstance(h, Batch) and h.log_id == self.control.log_id and h.lsn == lsn
        return h if is_it else None

    def next_batch(self, state):
        """(batch, payload, frames, state after it); raises Stop."""
        at, c = state.at, self.control
        s = self.holding(at)
        if s is None:
            raise Stop(at, "past-end" if at >= c.prepared_end else "no-segment")
        if at == s.start:
            at = s.first_batch
        elif at < s.first_batch or (at - s.start) % s.unit:
            raise Stop(at, "malformed")
        data = s.get(at, 128)
        if data is None:
            raise Stop(at, "unreadable")
        h = decode_batch(data)
        if isinstance(h, str):
            raise Stop(at, h)
        if h.log_id != c.log_id or h.lsn != at:
            raise Stop(at, "stale")
        if state.epoch is not None:
            named = h.prev_epoch if h.kind == "epoch" else h.epoch
            if h.epoch[0] < state.epoch[0] or named != state.epoch:
                raise Stop(at, "stale")
        if h.end(s.unit) > s.end:
            raise Stop(at, "malformed")
        if state.crc is not None and h.prev_crc != state.crc:
            raise Stop(at, "malformed")
        payload = s.get(at + 128, h.payload_len)
        if payload is None:
            raise Stop(at, "unreadable")
        if crc32c(payload) != h.payload_crc:
            raise Stop(at, "broken")
        if state.last_void is not None and h.last_void != state.last_void:
            raise Stop(at, "malformed")
        opened = state.opened
        if isinstance(opened, Open) and h.voids() and opened.start >= h.void_from:
            opened = None
        if h.kind in ("epoch", "void") and isinstance(opened, Open):
            raise Stop(at, "malformed")
        frames = frames_of(h, payload)
        if frames is None:
            raise Stop(at, "malformed")
        try:
            for frame in frames:
                opened = push(opened, frame)
        except ValueError:
            raise Stop(at, "malformed") from None
        last_void = h.lsn if h.voids() else h.last_void
        return h, payload, frames, State(h.end(s.unit), h.epoch, h.crc, last_void, opened)

    # --- Reading from the front

    def at_front(self):
        c = self.control
        s = self.holding(c.front)
        if s and s.start > c.first_segment:
            return State(s.start)
        crc = c.first_prev_crc if c.is_known else None
        if c.first_segment == 0:
            return State(0, NO_EPOCH, crc, 0, None)
        return State(c.first_segment, None, crc)

    def at_anchor(self):
        c = self.control
        if not c.is_known:
            return self.at_front()
        return State(c.anchor, c.anchor_epoch, c.anchor_crc, c.anchor_void, None)

    # --- The end of the log

    def headers_after(self, at, epoch):
        """Headers that would do as proof, whatever their stamp, with their segments."""
        c = self.control
        known = [c.epoch] + c.history + ([epoch] if epoch is not None else [])
        # A limit of 0 is not known; where something lies above it, it is older than the log.
        is_limited = 0 < c.write_limit and at <= c.write_limit
        for s in self.segments:
            if s.end <= at:
                continue
            lsn = s.start + round_up(max(at, s.first_batch) - s.start, s.unit)
            while lsn < s.end and not (is_limited and lsn >= c.write_limit):
                h = self.header_at(s, lsn)
                if h and h.epoch in known and (epoch is None or h.epoch[0] >= epoch[0]):
                    yield s, h
                lsn += s.unit

    def resumptions(self, begun):
        found = []
        for s in self.segments:
            h = self.header_at(s, s.first_batch) if s.start > begun else None
            if h and h.kind == "epoch" and h.voids() and h.end(s.unit) <= s.end:
                found.append(h)
        return found

    def resumed(self, found, state):
        anchor = self.control.anchor
        fitting = [
            h
            for h in found
            if h.void_from <= state.at < h.lsn
            and not h.lsn > anchor > state.at
            and (h.prev_crc, h.prev_epoch) == (state.crc, state.epoch)
        ]
        if not fitting:
            return None
        return state.moved(max(fitting, key=lambda h: (h.epoch[0], h.lsn)).lsn)

    def find_end(self, state):
        c, begun = self.control, state
        found = self.resumptions(state.at)
        trusted = state.at
        while True:
            try:
                h, _, _, state = self.next_batch(self.resumed(found, state) or state)
                trusted = max(trusted, h.stamp)
            except Stop as stopped:
                stop = stopped
                break
        closed = c.clean and c.both and state.at == c.anchor
        stamps = [] if closed else [h.stamp for _, h in self.headers_after(stop.at, state.epoch)]
        stamp = max((s for s in stamps if s > stop.at), default=0)
        durable_to = max(trusted, stamp)
        seen = "blank" if closed and stop.seen == "unreadable" else stop.seen
        lsn, case = stop.at, decide(seen, stamp > 0 or stop.at < c.anchor)
        met = state.epoch is None or state.epoch[0] >= c.epoch[0]
        gaps = self.gaps()
        if not met and begun.at == c.anchor and gaps:
            # A hidden opening. What a file holds can always be read here.
            state, trusted = begun, begun.at
            if case in ENDS:
                lsn, case = gaps[0], "segment-lost"
        lost = None if case in ENDS else Damage(lsn, case)
        return End(state, case, lost, trusted, durable_to)

    # --- Reading void ranges

    def entry(self, lsn):
        s = self.holding(lsn)
        h = self.header_at(s, lsn) if s else None
        return h if h and h.voids() else None

    def read_voids(self):
        """What is void, as far as the list says; where it is broken, as far as anything says."""
        self.ending = end = self.find_end(self.at_anchor())
        self.proven_to, last_void = end.trusted, end.state.last_void
        if end.lost:
            after = [
                h
                for s, h in self.headers_after(end.state.at, end.state.epoch)
                if self.counts(s, h, end.durable_to)
            ]
            self.proven_to = max([self.proven_to] + [h.stamp for h in after])
            if after:
                latest = max(after, key=lambda h: (h.epoch[0], h.lsn))
                state = State(latest.lsn, last_void=latest.last_void)
                found = self.resumptions(state.at)
                try:
                    while True:
                        h, _, _, state = self.next_batch(self.resumed(found, state) or state)
                        self.proven_to = max(self.proven_to, h.stamp)
                except Stop:
                    last_void = state.last_void
        self.voids, self.named, self.unknown = Ranges(), set(), None
        at = last_void or 0
        while at > self.control.front:
            self.named.add(at)
            h = self.entry(at)
            if h is None:
                self.unknown = at
                break
            self.voids.add(h.void_from, h.lsn)
            at = h.last_void
        if self.unknown is not None:
            self.gather()

    def gather(self):
        named, valid = set(self.named), set()
        voids = Ranges(self.voids.all)

        def visit(what, h=None, **_):
            if what != "batch":
                return
            if h.voids():
                voids.add(h.void_from, h.lsn)
                valid.add(h.lsn)
            named.add(h.last_void)

        self.read_all(visit)
        self.unknown, self.named, self.voids = None, named, voids
        front = self.control.front
        for at in sorted(named, reverse=True):
            if at <= front or at in valid or voids.covering(at):
                continue
            h = self.entry(at)
            if h:
                voids.add(h.void_from, h.lsn)
                continue
            self.unknown = at
            return

    # --- Reading the whole log

    def read_all(self, visit):
        """Calls `visit` with what is met; answers where the log ends, and the case."""
        c, anchor, told = self.control, self.at_anchor(), set()

        def report(lsn, case):
            visit("again" if lsn in told else "damage", lsn=lsn, case=case)
            told.add(lsn)

        missing = sorted(self.gaps() + [s.start for s in self.segments if s.name in self.regained])
        state = self.at_front()
        end, anchored = state.at, not c.is_known
        case = None
        while case is None:
            found, stop = self.resumptions(state.at), None
            while stop is None:
                if not anchored and state.at >= anchor.at:
                    anchored = True
                    if state.at == anchor.at or not self.voids.covering(anchor.at):
                        is_wrong = contradicts(state, anchor)
                        state = anchor
                        if is_wrong:
                            report(anchor.at, "written-wrong")
                lost = self.ending.lost
                if anchored and state.at == self.ending.state.at and lost and lost.lsn not in told:
                    break
                there = self.resumed(found, state)
                try:
                    h, payload, frames, state = self.next_batch(there or state)
                except Stop as stopped:
                    stop = stopped
                    continue
                if there:
                    visit("jump")
                end = state.at
                visit("batch", h=h, end=end, frames=frames)
            at = stop.at if stop else state.at
            if stop and self.voids.covering(at):
                state = State(self.voids.covering(at)[1], opened=None)
                visit("jump")
                continue
            verdict = self.ending if stop is None else self.find_end(state)
            if verdict.lost is None:
                end, case = max(end, state.at), verdict.case
                break
            after = self.next_after(at + 1 if stop else at, state.epoch)
            if after is not None and not anchored and after >= anchor.at:
                after = None
            lsn = verdict.lost.lsn
            if verdict.case == "segment-lost" and lsn in missing:
                missing.remove(lsn)
            report(lsn, verdict.case)
            if after is not None:
                state = State(after)
            elif not anchored:
                state = anchor
            else:
                case = verdict.case
        visit("jump")
        for lsn in missing:
            report(lsn, "segment-lost")
        if self.ending.lost and self.ending.lost.lsn not in told:
            report(self.ending.lost.lsn, self.ending.lost.case)
        if self.unknown is not None and self.unknown not in told:
            report(self.unknown, "damaged")
        return end, case

    # --- Salvage

    def counts(self, segment, h, durable_to):
        c = self.control
        if c.is_known and h.lsn >= c.anchor:
            return h.epoch[0] >= c.epoch[0]
        return h.end(segment.unit) <= durable_to

    def next_after(self, at, epoch):
        while True:
            for s, h in self.headers_after(at, epoch):
                if self.counts(s, h, self.proven_to) and not self.voids.covering(h.lsn):
                    break
            else:
                return None
            if self.unknown is None or h.lsn >= self.unknown:
                return h.lsn
            state = State(h.lsn)
            found = self.resumptions(state.at)
            try:
                while True:
                    state = self.next_batch(self.resumed(found, state) or state)[3]
                    leads = state.at in self.named or self.voids.begins(state.at)
                    if leads or state.at >= self.unknown:
                        return h.lsn
            except Stop:
                at = max(state.at, h.lsn + 1)

    def regain(self, log_id, start, end):
        """Segments with a damaged header, by their batches. Answers the log id."""
        claims = {}
        for name in sorted(self.strays):
            claims.setdefault(int(name[:16], 16), name)
        valid, regained = list(self.segments), []
        starts = [s.start for s in valid] + list(claims)
        for claim in sorted(claims):
            if not start <= claim < end or any(s.start <= claim < s.end for s in valid):
                continue
            bound = min([s for s in starts if s > claim] + [end])
            s = by_batches(claims[claim], self.files[claims[claim]], log_id, claim, bound, valid)
            if s:
                log_id = s.log_id
                regained.append(s)
        self.regained = [s.name for s in regained]
        self.segments = sorted(valid + regained, key=lambda s: s.start)

    def without_control(self):
        log_id = None
        for name in sorted(self.files):
            if SEGMENT_NAME.fullmatch(name) and log_id is None:
                s = segment_of(name, self.files[name])
                log_id = s.log_id if s and len(s.data) >= s.len else None
        self.list(log_id, True)
        self.regain(log_id, 0, 1 << 64)
        if not self.segments:
            raise Refused("no-log")
        c = self.control = Control()
        first, epochs = self.segments[0], sorted({s.epoch for s in self.segments}, reverse=True)
        c.log_id, c.is_known, c.both, c.clean, c.has_meta = first.log_id, False, False, 0, 0
        c.first_segment = c.front = c.anchor = first.start
        c.anchor_void, c.prepared_end, c.write_limit = 0, self.segments[-1].end, 0
        c.epoch, c.history = epochs[0], epochs[:EPOCH_HISTORY]


ENDS = ("clean-end", "stale-end", "torn-end", "full-end")


def decide(seen, stamped):
    if seen == "no-segment":
        return "segment-lost"
    if seen == "malformed":
        return "written-wrong"
    if stamped:
        return "damaged"
    return {
        "unreadable": "read-error",
        "blank": "clean-end",
        "stale": "stale-end",
        "broken": "torn-end",
        "past-end": "full-end",
    }[seen]


def contradicts(state, anchor):
    pairs = [(state.epoch, anchor.epoch), (state.crc, anchor.crc), (state.last_void, anchor.last_void)]
    differs = any(a is not None and b is not None and a != b for a, b in pairs)
    return state.at != anchor.at or differs or isinstance(state.opened, Open)


def by_batches(name, data, log_id, start, bound, valid):
    """The segment in a file whose header is damaged, by its batches."""
    room = bound - start
    said_len, said_unit = (u64(data, 40), u32(data, 12)) if len(data) >= 128 else (0, 0)
    s = segment_of(name, data)
    is_whole = s is not None and s.start == start and log_id in (None, s.log_id)
    if is_whole or said_len in (len(data), room):
        length = min(said_len, room)
    else:
        length = min(len(data), room)
    units = [said_unit] + [s.unit for s in valid] + [4096]
    units += [1 << bit for bit in range(9, 17)]
    best = None
    for unit in dict.fromkeys(units):
        if unit == 0 or not geometry_is_valid(start, length // unit * unit, unit):
            continue
        s = Segment(name, data, log_id, start, length // unit * unit, unit, NO_EPOCH)
        at, links, before, seen = s.first_batch, 0, None, None
        while at < min(s.end, start + len(data)):
            bytes_ = s.get(at, 128)
            h = decode_batch(bytes_) if bytes_ else None
            if not isinstance(h, Batch) or h.lsn != at or s.log_id not in (None, h.log_id):
                before, at = None, at + unit
                continue
            if seen is None:
                seen, s.log_id, s.epoch = h, h.log_id, h.epoch
            links += before == h.prev_crc
            before, at = h.crc, h.end(unit)
        if seen and (best is None or links > best[0]):
            best = (links, s)
    return best[1] if best else None


# --- What is shown


class Records:
    """Puts records together, as *Records* in *Reading the whole log* says."""

    def __init__(self, log):
        self.log, self.entries, self.group = log, [], []
        self.after_loss = self.is_part = False
        self.batches = 0
        self.proven_to = log.proven_to

    def visit(self, what, h=None, end=None, frames=None, lsn=None, case=None):
        if what == "jump":
            self.group = []
        elif what == "batch":
            self.batch(h, end, frames)
        else:
            for record in self.group:
                if record["end"] is not None:
                    self.show(record, True)
            self.group, self.after_loss = [], True
            if what == "damage":
                self.entries.append({"what": "damage", "lsn": lsn, "case": case})

    def batch(self, h, end, frames):
        self.batches += 1
        self.proven_to = max(self.proven_to, h.stamp)
        entry = {
            "what": "batch",
            "lsn": h.lsn,
            "end": end,
            "kind": h.kind,
            "epoch": "%d:%016x" % h.epoch,
            "stamp": h.stamp,
            "frames": h.frames,
            "payload_bytes": h.payload_len,
        }
        if h.voids():
            entry["void_from"] = h.void_from
            self.group = []
        self.entries.append(entry)
        for frame in frames:
            if self.log.voids.covering(frame.lsn):
                self.group = []
                continue
            if frame.flags & FIRST:
                if not self.group:
                    self.is_part = self.after_loss and bool(frame.flags & FOLLOWS)
                    self.after_loss = False
                self.group.append({"lsn": frame.lsn, "end": None, "data": b""})
            if not self.group:
                continue
            record = self.group[-1]
            record["data"] += frame.data
            if frame.flags & LAST:
                record["end"] = frame.end
                if not frame.flags & JOINED:
                    for record in self.group:
                        self.show(record, self.is_part)
                    self.group = []

    def show(self, record, is_part):
        if record["lsn"] < self.log.control.front:
            return
        entry = {
            "what": "part" if is_part else "record",
            "lsn": record["lsn"],
            "end": record["end"],
            "bytes": len(record["data"]),
            "data": record["data"].hex(),
        }
        if not is_part:
            unknown = self.log.unknown
            is_known = unknown is None or record["lsn"] >= unknown
            entry["proven"] = is_known and record["end"] <= self.proven_to
        self.entries.append(entry)


def decode(path, salvage=False):
    """What `logforce dump --data hex` shows of a log, as far as it says what the log holds."""
    try:
        log = Log(path, salvage)
    except Refused as refused:
        return refused.report
    log.read_voids()
    records = Records(log)
    end, case = log.read_all(records.visit)
    if log.meta_lost:
        records.visit("damage", lsn=0, case="damaged")
    c = log.control
    return {
        "log": {
            "log_id": c.log_id.hex(),
            "front": c.front,
            "anchor": c.anchor,
            "prepared_end": c.prepared_end,
            "clean": bool(c.clean and c.both),
            "epoch": "%d:%016x" % c.epoch,
            "control_whole": c.both,
            "bounds_known": c.is_known,
            "meta_bytes": None if log.meta is None else len(log.meta),
            "meta_whole": log.meta_whole,
        },
        "entries": records.entries,
        "void": log.voids.all,
        "end": end,
        "case": case,
        "proven_to": records.proven_to,
    }


def main():
    """Answers line by line, so that another program can ask for one log after the other."""
    arguments = sys.argv[1:]
    flags = [a for a in arguments if a == "--salvage"]
    paths = [a for a in arguments if a not in flags]
    for path in paths or map(str.rstrip, sys.stdin):
        salvage = bool(flags) or path.startswith("--salvage ")
        path = path.removeprefix("--salvage ")
        print(json.dumps(decode(path, salvage)), flush=True)


if __name__ == "__main__":
    main()
