import logforce_sqlite

db = logforce_sqlite.connect("sale.db")
db.execute("PRAGMA journal_mode=WAL")
db.execute("CREATE TABLE IF NOT EXISTS sale(cents INTEGER)")
with db:
    db.execute("INSERT INTO sale VALUES (250)")  # durable when the block ends
print(logforce_sqlite.durability(db)["summary"])
