// node sale.mjs, beside liblogforce_sqlite.so; Node 24 or later
import { DatabaseSync } from 'node:sqlite';

const loader = new DatabaseSync(':memory:', { allowExtension: true });
loader.loadExtension('./liblogforce_sqlite'); // the VFS stays
const db = new DatabaseSync('file:sale.db?vfs=logforce');
db.exec('SELECT logforce_vfs_in_use(); PRAGMA journal_mode=WAL');
db.exec('CREATE TABLE IF NOT EXISTS sale(cents INTEGER); INSERT INTO sale VALUES (250)');
console.log(db.prepare("SELECT logforce_durability('main') ->> '$.summary' AS survives").get().survives);
