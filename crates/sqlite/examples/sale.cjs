// node sale.cjs, beside liblogforce_sqlite.so, with the package better-sqlite3
const Database = require('better-sqlite3');

const loader = new Database(':memory:');
loader.loadExtension('./liblogforce_sqlite', 'sqlite3_logforcesqlite_default_init'); // the default VFS from here on
const db = new Database('sale.db');
db.exec('SELECT logforce_vfs_in_use()');
db.pragma('journal_mode = WAL');
db.exec('CREATE TABLE IF NOT EXISTS sale(cents INTEGER); INSERT INTO sale VALUES (250)');
console.log(db.prepare("SELECT logforce_durability('main') ->> '$.summary'").pluck().get());
