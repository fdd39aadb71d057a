"""A forked child opens its own connection while the parent has one, as preloading servers do."""

import os

import logforce_sqlite

ROWS = 20
parent = logforce_sqlite.connect("fork.db", isolation_level=None)
parent.execute("PRAGMA journal_mode=WAL")
parent.execute("CREATE TABLE IF NOT EXISTS sale(cents INTEGER)")
for _ in range(ROWS):
    parent.execute("INSERT INTO sale VALUES (250)")
child = os.fork()
if child == 0:
    own = logforce_sqlite.connect("fork.db", isolation_level=None, group_commit=True)
    for _ in range(ROWS):
        own.execute("INSERT INTO sale VALUES (300)")
    own.execute("PRAGMA logforce_force_within=20")
    own.execute("PRAGMA synchronous=NORMAL")
    for _ in range(ROWS):
        own.execute("INSERT INTO sale VALUES (350)")
    own.close()
    os._exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
(rows,) = parent.execute("SELECT count(*) FROM sale").fetchone()
assert rows == 3 * ROWS, rows
