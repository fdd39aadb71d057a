package main

import (
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
)

// HashiCorp's log: it preallocates segments of 64 MiB, and each StoreLogs ends in an fsync.
type raftLog struct {
	wal *wal.WAL
	// The log does not close it, and its lock would keep the next opening waiting.
	meta  *metadb.BoltMetaDB
	index uint64
}

func openRaft(dir string) (*raftLog, error) {
	meta := &metadb.BoltMetaDB{}
	opened, err := wal.Open(dir, wal.WithMetaStore(meta), wal.WithLogger(hclog.NewNullLogger()))
	if err != nil {
		return nil, err
	}
	return &raftLog{wal: opened, meta: meta}, nil
}

func createRaft(dir string) (openLog, error) {
	return openRaft(dir)
}

func (l *raftLog) save(records [][]byte) error {
	logs := make([]raft.Log, len(records))
	pointers := make([]*raft.Log, len(records))
	for at, record := range records {
		l.index++
		logs[at] = raft.Log{Index: l.index, Term: 1, Type: raft.LogCommand, Data: record}
		pointers[at] = &logs[at]
	}
	return l.wal.StoreLogs(pointers)
}

func (l *raftLog) close() error {
	if err := l.wal.Close(); err != nil {
		return err
	}
	return l.meta.Close()
}

func readRaft(dir string, see func([]byte)) error {
	opened, err := openRaft(dir)
	if err != nil {
		return err
	}
	first, err := opened.wal.FirstIndex()
	if err != nil {
		return err
	}
	last, err := opened.wal.LastIndex()
	if err != nil {
		return err
	}
	for index := first; first > 0 && index <= last; index++ {
		var entry raft.Log
		if err := opened.wal.GetLog(index, &entry); err != nil {
			return err
		}
		see(entry.Data)
	}
	return opened.close()
}
