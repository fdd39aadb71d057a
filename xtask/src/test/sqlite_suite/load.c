/*
** Loads an extension when SQLite initialises (SQLITE_EXTRA_INIT), before a
** connection is opened: the library that LOGFORCE_SUITE_LIBRARY names, from
** the entry point that makes its VFS the default. Without the variable this
** is stock SQLite, so one program serves both runs.
*/
#include <stdio.h>
#include <stdlib.h>
#include "sqlite3.h"

int logforce_suite_init(const char *unused){
  const char *library = getenv("LOGFORCE_SUITE_LIBRARY");
  sqlite3 *db = 0;
  char *message = 0;
  int rc;
  (void)unused;
  if( library==0 ) return SQLITE_OK;
  rc = sqlite3_open_v2(":memory:", &db,
      SQLITE_OPEN_READWRITE|SQLITE_OPEN_CREATE, "unix");
  if( rc==SQLITE_OK ){
    rc = sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1, (int*)0);
  }
  if( rc==SQLITE_OK ){
    rc = sqlite3_load_extension(db, library,
        "sqlite3_logforcesqlite_default_init", &message);
  }
  if( rc!=SQLITE_OK ){
    fprintf(stderr, "loading %s: %s\n", library, message ? message : sqlite3_errstr(rc));
  }
  sqlite3_free(message);
  sqlite3_close(db);
  return rc;
}
