-- sqlite3 < sale.sql, beside liblogforce_sqlite.so
.load ./liblogforce_sqlite
.open file:sale.db?vfs=logforce
SELECT logforce_vfs_in_use();
PRAGMA journal_mode=WAL;
CREATE TABLE IF NOT EXISTS sale(cents INTEGER);
INSERT INTO sale VALUES (250);
SELECT logforce_durability('main') ->> '$.summary';
