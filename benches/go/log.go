package main

// A log that is open for writing.
type openLog interface {
	// save makes the records durable, in this order, as one write of the log.
	save(records [][]byte) error
	close() error
}

// A kind of log.
type kind struct {
	// create makes one in an empty directory.
	create func(dir string) (openLog, error)
	// read opens what was closed there and shows every record.
	read func(dir string, see func(record []byte)) error
	// bulk is how many bytes of records are saved at once where many come: every save syncs, so
	// there is no single force at the end to wait for.
	bulk int
}

var kinds = map[string]kind{
	"etcd-wal":    {create: createEtcd, read: readEtcd, bulk: 64 << 20},
	"raft-wal-go": {create: createRaft, read: readRaft, bulk: 1 << 20},
}
