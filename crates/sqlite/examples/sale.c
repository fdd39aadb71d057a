/* cc sale.c -lsqlite3 && ./a.out, beside liblogforce_sqlite.so */
#include <sqlite3.h>
#include <stdio.h>

static int print(void *none, int count, char **values, char **names) {
    (void)none, (void)names;
    for (int i = 0; i < count; i++) puts(values[i] ? values[i] : "NULL");
    return 0;
}

int main(void) {
    sqlite3 *loader, *db;
    char *error = NULL;
    sqlite3_open(":memory:", &loader);
    sqlite3_db_config(loader, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1, NULL);
    if (sqlite3_load_extension(loader, "./liblogforce_sqlite", NULL, &error)) return puts(error), 1;
    sqlite3_close(loader); /* the VFS stays */
    if (sqlite3_open_v2("sale.db", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, "logforce"))
        return puts(sqlite3_errmsg(db)), 1;
    if (sqlite3_exec(db, "SELECT logforce_vfs_in_use(); PRAGMA journal_mode=WAL;"
                         "CREATE TABLE IF NOT EXISTS sale(cents INTEGER); INSERT INTO sale VALUES (250);"
                         "SELECT json_extract(logforce_durability('main'), '$.summary');",
                     print, NULL, &error)) return puts(error), 1;
    return sqlite3_close(db);
}
