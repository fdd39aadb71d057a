"""Two copies of the extension in one process, as two packages would bring them: the first one stays in use."""

import os
import shutil
import sqlite3

import logforce_sqlite

second = os.path.abspath("liblogforce_sqlite2.so")
shutil.copy(logforce_sqlite.library(), second)
db = logforce_sqlite.connect("versions.db")
loader = sqlite3.connect(":memory:")
loader.enable_load_extension(True)
loader.load_extension(second)
other = logforce_sqlite.connect("versions.db")
for connection in (db, other):
    connection.execute("CREATE TABLE IF NOT EXISTS sale(cents INTEGER)")
    for _ in range(5):
        with connection:
            connection.execute("INSERT INTO sale VALUES (250)")
    assert logforce_sqlite.durability(connection)["vfs"] == "logforce/unix"
(rows,) = db.execute("SELECT count(*) FROM sale").fetchone()
assert rows == 10, rows
