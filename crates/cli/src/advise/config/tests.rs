use super::*;
use logforce_systems::settings::SystemSettings;
use std::fs;

/// Writes files into a directory, and reads the first of them.
fn read_files(
    system: System,
    files: &[(&str, &str)],
) -> (tempfile::TempDir, anyhow::Result<Configuration>) {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let wanted: Vec<&'static str> = SystemSettings::of(system).names().collect();
    let found = read(system, &wanted, &dir.path().join(files[0].0));
    (dir, found)
}

/// Asserts the values in force and the lines where they stand, and that everything was understood.
fn assert_found(system: System, files: &[(&str, &str)], expected: &[(&str, &str, &str)]) {
    let (dir, found) = read_files(system, files);
    let found = found.unwrap();
    assert!(found.unread.is_empty(), "{:?}", found.unread);
    for (name, value, place) in expected {
        let setting = found
            .of(name)
            .unwrap_or_else(|| panic!("{name} is missing: {found:?}"));
        assert_eq!(setting.value, *value, "{name}");
        let place = dir.path().join(place).display().to_string();
        let of_unix = |path: &str| path.replace('\\', "/");
        assert_eq!(of_unix(&setting.place), of_unix(&place), "{name}");
    }
    let mut names: Vec<&str> = found.found.iter().map(|f| f.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), expected.len(), "{found:?}");
}

/// Asserts that a part that is not understood is reported.
fn assert_unread(system: System, text: &str, words: &str) {
    let (_dir, found) = read_files(system, &[("conf", text)]);
    let unread = found.unwrap().unread.join("\n");
    assert!(unread.contains(words), "{words}: {unread}");
}

#[test]
fn postgresql_conf() {
    let main = "\
# comment = with 'quotes
data_directory = 'data'\t# trailing
fsync on
SYNCHRONOUS_COMMIT='off'   # it's off
shared_buffers = 128MB
log_line_prefix = '%m [%p] it''s \\'quoted\\' # no comment '
include_if_exists = 'missing.conf'
include_dir 'conf.d'
full_page_writes = on
";
    assert_found(
        System::Postgresql,
        &[
            ("postgresql.conf", main),
            (
                "conf.d/20.conf",
                "full_page_writes=off\nwal_sync_method = open_sync\n",
            ),
            ("conf.d/10.conf", "include '../one.conf'"),
            ("conf.d/.hidden.conf", "fsync = off"),
            ("conf.d/no.txt", "fsync = off"),
            ("one.conf", "wal_sync_method = fsync"),
            (
                "data/postgresql.auto.conf",
                "# Do not edit\nfsync = 'off'\n",
            ),
        ],
        &[
            ("data_directory", "data", "postgresql.conf:2"),
            // ALTER SYSTEM counts more than the file.
            ("fsync", "off", "data/postgresql.auto.conf:2"),
            ("synchronous_commit", "off", "postgresql.conf:4"),
            // The last setting counts.
            ("full_page_writes", "on", "postgresql.conf:9"),
            ("wal_sync_method", "open_sync", "conf.d/20.conf:2"),
        ],
    );
    // The file of a data directory names none.
    let (dir, found) = read_files(
        System::Postgresql,
        &[
            ("d/postgresql.conf", "fsync = on\n"),
            ("d/PG_VERSION", "15\n"),
            ("d/postgresql.auto.conf", "fsync = off"),
        ],
    );
    let found = found.unwrap();
    assert_eq!(found.of("fsync").unwrap().value, "off");
    let directory = Path::new(&found.of("data_directory").unwrap().value);
    assert_eq!(
        directory.canonicalize().unwrap(),
        dir.path().join("d").canonicalize().unwrap()
    );
    for (line, why) in [
        ("fsync = 'off", "quote"),
        ("fsync", "value is missing"),
        ("fsync = on off", "behind the value"),
        ("= on", "name of a setting"),
    ] {
        assert_unread(System::Postgresql, line, why);
    }
}

#[test]
fn my_cnf() {
    let main = "\
[client]
password = \"a#b\"
sync_binlog = 7
[mysqld]
datadir=/var/lib/mysql # behind
innodb-flush-log-at-trx-commit = 2
; comment
loose_sync_binlog='0'
log-bin = /var/log/mysql-bin
!include more.cnf
!includedir conf.d
[mysqldump]
innodb_doublewrite = 0
";
    let files = [
        ("my.cnf", main),
        (
            "more.cnf",
            "[mysqld]\nskip-innodb-doublewrite\n[mariadb]\ninnodb_flush_method=O_DSYNC\n",
        ),
        ("conf.d/z.cnf", "[server]\ninnodb_page_size = 4k\n"),
        ("conf.d/z.cnf.bak", "[server]\nsync_binlog = 9\n"),
    ];
    let common = [
        ("datadir", "/var/lib/mysql", "my.cnf:5"),
        ("innodb_flush_log_at_trx_commit", "2", "my.cnf:6"),
        ("sync_binlog", "0", "my.cnf:8"),
        ("log_bin", "ON", "my.cnf:9"),
        ("log_bin_basename", "/var/log/mysql-bin", "my.cnf:9"),
        ("innodb_doublewrite", "0", "more.cnf:2"),
        ("innodb_page_size", "4k", "conf.d/z.cnf:2"),
    ];
    assert_found(System::Mysql, &files, &common);
    let more = ("innodb_flush_method", "O_DSYNC", "more.cnf:4");
    assert_found(System::Mariadb, &files, &[&common[..], &[more]].concat());
    assert_found(
        System::Mariadb,
        &[("x.cnf", "[mariadbd]\nskip_log_bin\ndebug-no-sync\n")],
        &[
            ("log_bin", "OFF", "x.cnf:2"),
            ("log_bin_basename", "", "x.cnf:2"),
            ("debug_no_sync", "ON", "x.cnf:3"),
        ],
    );
    let of_a_version = "[mysqld-8.4]\nsync_binlog = 0\nport = 1\n[mysqld-dump]\nsync_binlog = 5\n";
    assert_unread(
        System::Mysql,
        of_a_version,
        "the group [mysqld-8.4] counts only for some servers",
    );
    let (_dir, found) = read_files(System::Mysql, &[("x.cnf", of_a_version)]);
    let found = found.unwrap();
    assert_eq!((found.found.len(), found.unread.len()), (0, 1));
}

/// As `mariadbd --verbose --help` of 10.11 shows the values.
#[test]
fn options_of_my_cnf_are_read_as_the_server_does_or_reported() {
    for (line, name, value) in [
        ("skip-innodb_doublewrite=0", "innodb_doublewrite", "1"),
        ("skip-innodb_doublewrite=1", "innodb_doublewrite", "0"),
        ("skip-innodb_doublewrite=OFF", "innodb_doublewrite", "0"),
        ("disable_innodb-doublewrite", "innodb_doublewrite", "0"),
        ("enable-innodb_doublewrite=0", "innodb_doublewrite", "0"),
        ("enable-innodb_doublewrite", "innodb_doublewrite", "1"),
        ("loose-sync-binlog=0", "sync_binlog", "0"),
        ("skip-log-bin", "log_bin", "OFF"),
        ("disable-log-bin=0", "log_bin", "ON"),
        ("log-bin=0", "log_bin", "ON"),
        ("log-bin", "log_bin", "ON"),
    ] {
        let text = format!("[mysqld]\n{line}\n");
        for system in [System::Mysql, System::Mariadb] {
            let (_dir, found) = read_files(system, &[("my.cnf", &text)]);
            let found = found.unwrap();
            let read = found.of(name).map(|f| f.value.as_str());
            assert_eq!(read, Some(value), "{line}");
            assert!(found.unread.is_empty(), "{line} {:?}", found.unread);
        }
    }
    for line in [
        "innodb_flush_log_at_trx=0",
        "innodb-doublew = 0",
        "sync_b=0",
        "skip-innodb_double",
        "loose-innodb_double=0",
        "maximum-innodb_flush_log_at_trx_commit=0",
        "autoset-sync_binlog",
        "loose-skip-innodb_doublewrite",
        "skip-skip-innodb_doublewrite",
    ] {
        let text = format!("[mysqld]\n{line}\n");
        assert_unread(System::Mariadb, &text, "write");
    }
    for line in ["innodb=ON", "skip-name-resolve", "port = 3306", "loose_x"] {
        let (_dir, found) = read_files(System::Mysql, &[("x", &format!("[mysqld]\n{line}\n"))]);
        let found = found.unwrap();
        assert!(found.found.is_empty() && found.unread.is_empty(), "{line}");
    }
    for group in [
        "mysqld1",
        "mysqld@r1",
        "mysqld-8.4",
        "mariadb-10.11",
        "mysqld_2",
    ] {
        let text = format!("[{group}]\nskip-innodb_doublewrite\nport = 1\n");
        let words = format!("the group [{group}] counts only");
        assert_unread(System::Mariadb, &text, &words);
    }
    for group in [
        "mysqldump",
        "mysqld_safe",
        "mysqld_multi",
        "mariadb-dump",
        "client",
    ] {
        let text = format!("[{group}]\nsync_binlog = 0\n");
        let (_dir, found) = read_files(System::Mariadb, &[("x", &text)]);
        let found = found.unwrap();
        assert!(found.found.is_empty() && found.unread.is_empty(), "{group}");
    }
}

#[test]
fn redis_conf() {
    assert_found(
        System::Redis,
        &[
            (
                "redis.conf",
                "# appendonly yes\nAppendOnly yes\ndir \"/var/lib\"\ninclude other.conf\nsave 3600 1\n",
            ),
            ("other.conf", "appendfsync everysec\n"),
        ],
        &[
            ("appendonly", "yes", "redis.conf:2"),
            ("dir", "/var/lib", "redis.conf:3"),
            ("appendfsync", "everysec", "other.conf:1"),
        ],
    );
    assert_unread(System::Redis, "include /etc/redis/*.conf\n", "pattern");
}

#[test]
fn properties() {
    let name = "log.flush.interval.messages";
    for (text, value) in [
        ("log.flush.interval.messages=1\n", "1"),
        ("! c\n# c\n  log.flush.interval.messages : 5 \n", "5"),
        ("log.flush.interval.messages 7\n", "7"),
        ("log.flush.interval\\\n   .messages=9\n", "9"),
        ("log.flush.interval\\.messages = \\4\n", "4"),
        ("a=b\\\\\nlog.flush.interval.messages=3\n", "3"),
    ] {
        let (_dir, found) = read_files(System::Kafka, &[("server.properties", text)]);
        let found = found.unwrap();
        assert_eq!(
            found.of(name).map(|f| f.value.as_str()),
            Some(value),
            "{text}"
        );
    }
    assert_found(
        System::Zookeeper,
        &[(
            "zoo.cfg",
            "tickTime=2000\ndataDir=/d\nforceSync=no\nserver.1=a:2888:3888\n",
        )],
        &[
            ("dataDir", "/d", "zoo.cfg:2"),
            ("forceSync", "no", "zoo.cfg:3"),
        ],
    );
    assert_found(
        System::Rocksdb,
        &[(
            "OPTIONS-000005",
            "[Version]\n  rocksdb_version=9.0.0\n[DBOptions]\n  manual_wal_flush=true\n",
        )],
        &[("manual_wal_flush", "true", "OPTIONS-000005:4")],
    );
}

#[test]
fn yaml() {
    assert_found(
        System::Cassandra,
        &[(
            "cassandra.yaml",
            "cluster_name: 'Test: #1'\n# commitlog_sync: batch\nseeds:\n  - class: x\n    commitlog: y\n\
             commitlog_sync: periodic # why\ncommitlog_directory: \"/d\"\ntext: |\n  commitlog_sync: batch\nend: 1\n",
        )],
        &[
            ("commitlog_sync", "periodic", "cassandra.yaml:6"),
            ("commitlog_directory", "/d", "cassandra.yaml:7"),
        ],
    );
    assert_found(
        System::Mongodb,
        &[(
            "mongod.conf",
            "storage:\n  dbPath: /var/lib/mongodb\n  other:\n    dbPath: /no\nnet:\n  port: 1\n",
        )],
        &[("storage.dbPath", "/var/lib/mongodb", "mongod.conf:2")],
    );
    assert_unread(
        System::Mongodb,
        "storage: { dbPath: /x }\n",
        "a separate line",
    );
    assert_unread(
        System::Cassandra,
        "{commitlog_sync: batch}\n",
        "a separate line",
    );
    assert_unread(
        System::Cassandra,
        "commitlog_sync: &anchor batch\n",
        "a separate line",
    );
}

#[test]
fn lists_and_unusual_forms_of_yaml() {
    assert_found(
        System::Cassandra,
        &[(
            "cassandra.yaml",
            "%YAML 1.2\n---\nseed_provider:\n  - class_name: x\n    parameters:\n      - seeds: \"a:1\"\n\
             data_file_directories:\n- /a\n- \"/b\"\nsuites: [\n  A,\n  B\n]\ntext: more\n  of it\n\
             Commitlog_Sync: group\ncommitlog_sync : batch\n",
        )],
        &[
            ("data_file_directories", "/a,/b", "cassandra.yaml:8"),
            ("commitlog_sync", "batch", "cassandra.yaml:17"),
        ],
    );
    let brackets = "[".repeat(100_000);
    let script = "#!/bin/sh\nset -e\nif [ -f x ]; then exec y; fi\n";
    for text in [
        "commitlog_sync:\n  batch\n",
        "commitlog_sync: |\n  batch\n",
        "commitlog_sync:\tbatch\n",
        "? commitlog_sync\n: batch\n",
        "--- commitlog_sync: batch\n",
        "<<: *defaults\n",
        "a: [\n",
        "a: \"x\n",
        "words\n",
        &brackets,
        script,
    ] {
        for system in [System::Cassandra, System::Mongodb, System::Etcd] {
            let text = text
                .replace("commitlog_sync", "unsafe-no-fsync")
                .replace("batch", "true");
            let is_foreign = text.contains("unsafe") && system != System::Etcd;
            let (_dir, found) = read_files(system, &[("conf", &text)]);
            let found = found.unwrap();
            assert!(
                is_foreign || !found.unread.is_empty(),
                "{system} {text:.80}"
            );
            assert!(found.found.is_empty(), "{system} {text:.80}");
        }
    }
    let unit = "[Service]\nExecStart=/usr/bin/etcd --data-dir=/d $DAEMON_ARGS\n";
    assert_unread(System::Etcd, unit, "a variable");
}

#[test]
fn characters_by_number_are_reported() {
    for text in ["force\\u0053ync=no\n", "forceSync=n\\u006f\n"] {
        assert_unread(System::Zookeeper, text, "their numbers");
    }
    let path = "dataDir=C\\:\\\\users\n";
    let (_dir, found) = read_files(System::Zookeeper, &[("zoo.cfg", path)]);
    let found = found.unwrap();
    assert!(found.unread.is_empty());
    assert_eq!(found.of("dataDir").unwrap().value, "C:\\users");
}

/// `FileTxnLog.java` compares the value with "no", and the properties of Java are compared letter for letter.
#[test]
fn names_of_java_keep_their_case() {
    for (system, text) in [
        (System::Zookeeper, "forcesync=no\nDATADIR=/d\n"),
        (System::Kafka, "Log.Dirs=/d\n"),
        (System::Rocksdb, "Manual_WAL_flush=true\n"),
        (System::Etcd, "Unsafe-No-Fsync: true\n"),
    ] {
        let (_dir, found) = read_files(system, &[("conf", text)]);
        assert!(found.unwrap().found.is_empty(), "{text}");
    }
}

#[test]
fn etcd_in_all_its_forms() {
    let name = "unsafe-no-fsync";
    for (text, value) in [
        (
            "name: 'a'\ndata-dir: /d\nunsafe-no-fsync: true\n",
            Some("true"),
        ),
        (
            "ExecStart=/usr/bin/etcd --name x --unsafe-no-fsync \\\n  --data-dir /d\n",
            Some("true"),
        ),
        (
            "    - etcd\n    - --unsafe-no-fsync=false\n    - --data-dir=/d\n",
            Some("false"),
        ),
        (
            "ETCD_DATA_DIR=/d\nETCD_UNSAFE_NO_FSYNC=\"true\"\n",
            Some("true"),
        ),
        (
            "command: [\"etcd\", \"--unsafe-no-fsync\", \"--data-dir=/d\"]\n",
            Some("true"),
        ),
        ("# --unsafe-no-fsync\ndata-dir: /d\n", None),
    ] {
        let (_dir, found) = read_files(System::Etcd, &[("etcd", text)]);
        let found = found.unwrap();
        assert_eq!(found.of(name).map(|f| f.value.as_str()), value, "{text}");
        assert_eq!(
            found.of("data-dir").map(|f| f.value.as_str()),
            Some("/d"),
            "{text}"
        );
        assert!(found.unread.is_empty(), "{text} {:?}", found.unread);
    }
    let manifest = "env:\n- name: ETCD_UNSAFE_NO_FSYNC\n  value: \"true\"\n";
    assert_unread(System::Etcd, manifest, "on one line");
}

#[test]
fn nats_conf() {
    let name = "jetstream.sync_interval";
    for (text, value) in [
        ("jetstream {\n  sync_interval: always\n}\n", Some("always")),
        (
            "jetstream: { store_dir: /d, sync_interval: \"10s\" }",
            Some("10s"),
        ),
        (
            "jetstream\n{\n  # sync_interval: always\n  sync_interval = 2m // why\n}\n",
            Some("2m"),
        ),
        (
            "cluster { routes [ nats://a:1, nats://b:2 ] }\njetstream{sync_interval:always}",
            Some("always"),
        ),
        ("jetstream { sync: always }", Some("always")),
        ("JetStream { sync_interval: always, Sync: 1m }", Some("1m")),
        ("listen: 0.0.0.0:4222\nsync_interval: always\n", None),
        ("accounts { jetstream { sync_interval: always } }\n", None),
        (
            "jetstream { limits { sync_interval: 1 }\n sync_interval always }",
            Some("always"),
        ),
    ] {
        let (_dir, found) = read_files(System::Nats, &[("nats.conf", text)]);
        let found = found.unwrap();
        assert_eq!(found.of(name).map(|f| f.value.as_str()), value, "{text}");
    }
    assert_found(
        System::Nats,
        &[
            ("nats.conf", "port: 4222\ninclude ./js.conf\n"),
            (
                "js.conf",
                "jetstream {\n store_dir:/d\n include 'more.conf'\n}\n",
            ),
            ("more.conf", "sync_interval: always"),
        ],
        &[
            ("jetstream.store_dir", "/d", "js.conf:2"),
            ("jetstream.sync_interval", "always", "more.conf:1"),
        ],
    );
    let variable = "SYNC = always\njetstream { sync_interval: $SYNC }\n";
    assert_unread(System::Nats, variable, "variable");
}

#[test]
fn pragmas_in_any_text() {
    assert_found(
        System::Sqlite,
        &[(
            "init.sql",
            "-- PRAGMA synchronous = OFF\nPRAGMA main.journal_mode=WAL; pragma Synchronous(1);\nPRAGMA table_info(t);\n",
        )],
        &[
            ("journal_mode", "wal", "init.sql:2"),
            ("synchronous", "1", "init.sql:2"),
        ],
    );
    let source = "conn.execute(\"PRAGMA synchronous = 'NORMAL'\")\npragma\nPRAGMA synchronous\n";
    assert_found(
        System::Sqlite,
        &[("app.py", source)],
        &[("synchronous", "normal", "app.py:1")],
    );
}

/// No file makes a reader panic or run on.
#[test]
fn hostile_files_are_refused_or_read_to_the_end() {
    let long = "fsync = on ".repeat(100_000);
    let deep = "a {\n".repeat(20_000);
    let quotes = "'\"\\".repeat(5_000);
    let texts = [
        "",
        "\u{feff}fsync = on",
        "ÿ…µ = ✓\n\\\n=\n:\n[\n{\n}\n]\n'\n\"\n-\n- \n#\n%\n$\n",
        "jetstream { sync_interval: \"",
        "PRAGMA",
        "pragma synchronous=",
        "include\ninclude ''\n",
        "a: b: c: {d\n  - e: [f\n\t\tg:\n",
        &long,
        &deep,
        &quotes,
    ];
    for system in System::ALL {
        for text in texts {
            // An included name may be missing; nothing else fails.
            let (_dir, found) = read_files(system, &[("conf", text)]);
            if let Err(e) = found {
                assert!(format!("{e:#}").contains("cannot read"), "{system} {e:#}");
            }
        }
        for bytes in [&b"fsync = on\0"[..], b"\x7fELF\x02\x01\x01\0\0"] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("binary");
            fs::write(&path, bytes).unwrap();
            let error = read(system, &["fsync"], &path).unwrap_err().to_string();
            assert!(error.contains("is not a text file"), "{error}");
            let error = read(system, &["fsync"], dir.path())
                .unwrap_err()
                .to_string();
            assert!(error.contains("is not a file"), "{error}");
            let missing = dir.path().join("missing");
            let error = read(system, &["fsync"], &missing).unwrap_err().to_string();
            assert!(error.contains("cannot read"), "{error}");
        }
    }
}

#[test]
fn a_file_that_is_too_large_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("huge");
    let file = File::create(&path).unwrap();
    file.set_len(LARGEST + 1).unwrap();
    let error = read(System::Redis, &[], &path).unwrap_err().to_string();
    assert!(error.contains("larger than 4 MiB"), "{error}");
}

#[test]
fn circles_of_includes_end() {
    for (system, name, text) in [
        (System::Postgresql, "a.conf", "include 'a.conf'"),
        (System::Postgresql, "a.conf", "include_dir '.'"),
        (System::Mysql, "a.cnf", "!include a.cnf\n!include a.cnf\n"),
        (System::Mariadb, "a.cnf", "!includedir ."),
        (System::Redis, "a.conf", "include a.conf"),
        (System::Nats, "a.conf", "x { include a.conf }"),
    ] {
        let (_dir, found) = read_files(system, &[(name, text)]);
        let error = found.unwrap_err().to_string();
        assert!(error.contains("circle"), "{system} {error}");
    }
}

#[test]
fn a_file_of_rubbish_gives_a_short_list() {
    let rubbish = "= rubbish\n".repeat(5_000);
    let (_dir, found) = read_files(System::Postgresql, &[("x.conf", &rubbish)]);
    assert_eq!(found.unwrap().unread.len(), 21);
}
