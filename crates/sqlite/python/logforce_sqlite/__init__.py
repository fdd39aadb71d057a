"""A VFS for SQLite: durable commits that are faster, and the truth about what a commit survives.

    import logforce_sqlite

    db = logforce_sqlite.connect("till.db")
    db.execute("PRAGMA journal_mode=WAL")

Every file stays one that SQLite without this package opens, shares and recovers.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from typing import Any
from urllib.parse import quote

__all__ = ["Error", "connect", "durability", "library", "load"]

_LIBRARIES = {"win32": "logforce_sqlite.dll", "darwin": "liblogforce_sqlite.dylib"}


class Error(sqlite3.OperationalError):
    """The VFS cannot be used; the message says why, and what to do."""


def library() -> str:
    """Return the path of the extension, for SQLite libraries other than Python's own."""
    name = _LIBRARIES.get(sys.platform, "liblogforce_sqlite.so")
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), name)


def load(connection: sqlite3.Connection) -> None:
    """Load the extension by a connection.

    The VFS is registered for the whole process, and the SQL functions are added to this connection and to
    all later ones. The connection itself keeps the VFS with which it was opened.

    Raise Error if this Python cannot load extensions, or SQLite refuses this one.
    """
    try:
        connection.enable_load_extension(True)
    except AttributeError:
        raise Error(
            "this Python was built without loadable SQLite extensions. Use one that has them (Debian's has; "
            "for pyenv: PYTHON_CONFIGURE_OPTS=--enable-loadable-sqlite-extensions), or the package apsw "
            "with logforce_sqlite.library()"
        ) from None
    try:
        connection.load_extension(library())
    except sqlite3.OperationalError as error:
        raise Error(f"SQLite does not load {library()}: {error}") from error
    finally:
        connection.enable_load_extension(False)


def connect(
    database: str | os.PathLike[str],
    *,
    force_within: int | None = None,
    group_commit: bool = False,
    **arguments: Any,
) -> sqlite3.Connection:
    """Open a database by the VFS, and check that the VFS is in use.

    `database` is a path, not a URI. `force_within` (milliseconds) and `group_commit` are the pragmas of the
    same names. All other arguments are those of `sqlite3.connect`.

    Raise Error if the VFS cannot be used: the connection never falls back to SQLite's own.
    """
    path = os.fspath(database)
    if path in ("", ":memory:"):
        raise Error("a database in memory has no file to make durable: open it with sqlite3.connect")
    once = sqlite3.connect(":memory:")
    try:
        load(once)
    finally:
        once.close()
    uri = f"file:{quote(os.path.abspath(path))}?vfs=logforce"
    if force_within is not None:
        uri += f"&logforce_force_within={int(force_within)}"
    if group_commit:
        uri += "&logforce_group_commit=1"
    connection = sqlite3.connect(uri, **{**arguments, "uri": True})
    try:
        connection.execute("SELECT logforce_vfs_in_use()")
    except sqlite3.OperationalError as error:
        connection.close()
        raise Error(str(error)) from error
    return connection


def durability(connection: sqlite3.Connection, schema: str = "main") -> dict[str, Any]:
    """Return what a commit on this connection survives. Works for databases of any VFS."""
    (answer,) = connection.execute("SELECT logforce_durability(?)", (schema,)).fetchone()
    return json.loads(answer)
