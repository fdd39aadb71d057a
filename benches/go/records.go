package main

import (
	"bytes"
	"encoding/binary"
)

// Bytes at the front of a record that say whose it is.
const stampLength = 12

// The records of one thread, byte for byte those of `src/rivals/records.rs`: nobody gains by
// records that can be compressed.
type records struct {
	data []byte
	next uint64
}

func newRecords(writer, length int) *records {
	state := uint64(0x9e37_79b9_7f4a_7c15) ^ (uint64(writer) + 1)
	data := make([]byte, length)
	for at := 0; at < length; at += 8 {
		state ^= state >> 12
		state ^= state << 25
		state ^= state >> 27
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], state*0x2545_f491_4f6c_dd1d)
		copy(data[at:], word[:])
	}
	binary.LittleEndian.PutUint32(data, uint32(writer))
	return &records{data: data}
}

// The next record; the one before is overwritten.
func (r *records) following() []byte {
	record := r.at(r.next)
	r.next++
	return record
}

func (r *records) at(number uint64) []byte {
	binary.LittleEndian.PutUint64(r.data[4:stampLength], number)
	return r.data
}

// Which records were read back, and whether they are what was written.
type found struct {
	writers []*records
	seen    [][]bool
	foreign uint64
}

func newFound(threads, length int) *found {
	f := &found{seen: make([][]bool, threads)}
	for writer := range threads {
		f.writers = append(f.writers, newRecords(writer, length))
	}
	return f
}

// Sees a record. `most` bounds its number: a damaged one must not ask for all memory.
func (f *found) see(record []byte, most uint64) {
	if len(record) < stampLength {
		f.foreign++
		return
	}
	writer := binary.LittleEndian.Uint32(record)
	number := binary.LittleEndian.Uint64(record[4:stampLength])
	if uint64(writer) >= uint64(len(f.writers)) || number >= most ||
		!bytes.Equal(f.writers[writer].at(number), record) {
		f.foreign++
		return
	}
	seen := f.seen[writer]
	for uint64(len(seen)) <= number {
		seen = append(seen, false)
	}
	seen[number] = true
	f.seen[writer] = seen
}

// How many of the acknowledged records, each thread's first ones, were not seen.
func (f *found) missing(acknowledged []uint64) uint64 {
	var missing uint64
	for writer, count := range acknowledged {
		for number := range count {
			if number >= uint64(len(f.seen[writer])) || !f.seen[writer][number] {
				missing++
			}
		}
	}
	return missing
}
