//! The result store: an SQLite database outside every worker, opened by all of them and read by the harness.
//!
//! What is committed here outlives its worker, and it alone is the truth about completion. WAL with
//! `synchronous=NORMAL` survives the death of any process, which is what is drilled; it gives up nothing but the last
//! commits before a power cut, and in return no commit waits for the disk.

use std::{io, path::Path, time::Duration};

use rusqlite::{Connection, ErrorCode, OpenFlags, config::DbConfig, params, types::Type};
use scenarios::{RequestId, WorkerId};
use thiserror::Error;

use crate::clock;

/// One committed result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What was asked.
    pub request: RequestId,
    /// Who answered.
    pub worker: WorkerId,
    /// Its process, as its own PID namespace numbers it.
    pub pid: u32,
    /// What was added up.
    pub addends: Vec<u32>,
    /// The result.
    pub sum: u32,
    /// CLOCK_MONOTONIC at the commit, in microseconds.
    pub committed_us: u64,
}

/// Why the store can't be used.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Another process writes just now; try again.
    #[error("the result store is locked by another process")]
    Busy,
    /// There is a result of this request already; it stays as it is.
    #[error("{0} has a result in the store already")]
    Duplicate(RequestId),
    /// It can't be created here.
    #[error("the result store can't be created: {0}")]
    Create(#[source] io::Error),
    /// SQLite says so: no space, no such file, not a database.
    #[error("the result store can't be used: {0}")]
    Sqlite(#[source] rusqlite::Error),
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> StoreError {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy,
            _ => StoreError::Sqlite(error),
        }
    }
}

const SCHEMA: &str = "CREATE TABLE results (
    request INTEGER PRIMARY KEY,
    worker TEXT NOT NULL,
    pid INTEGER NOT NULL,
    addends TEXT NOT NULL,
    sum INTEGER NOT NULL,
    committed_us INTEGER NOT NULL
) STRICT";

const INSERT: &str = "INSERT INTO results VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

/// How often a connection that finds the store locked looks again. SQLite's own handler sleeps up to 100 ms.
const LOOK_AGAIN: Duration = Duration::from_micros(50);
/// How long a commit blocks its thread for a lock: longer than another worker's commit takes.
const COMMIT_PATIENCE: Duration = Duration::from_millis(1);
/// How long anything else does, which may have to wait for another process to recover the log.
const OPEN_PATIENCE: Duration = Duration::from_secs(2);

/// A store that was just created, kept open: as long as it is, no worker has to recover the log when it opens it.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
}

impl Store {
    /// All results in the order of their commits, whatever became of the workers that committed them.
    ///
    /// # Errors
    /// [`StoreError::Sqlite`] when a row is not one that a worker writes, or the file was meddled with.
    pub fn rows(&self) -> Result<Vec<Row>, StoreError> {
        rows(&self.connection)
    }
}

/// Creates an empty store at `path`, where nothing may be yet.
///
/// # Errors
/// [`StoreError::Create`] when there is something or nothing can be written there, [`StoreError::Sqlite`] when the disk
/// is full.
pub fn create(path: &Path) -> Result<Store, StoreError> {
    // SQLite would take an existing database as it is.
    std::fs::File::create_new(path).map_err(StoreError::Create)?;
    let connection = open(path)?;
    // Nothing is in it yet that a power cut could take. The first transaction of a log is one that waits for the disk
    // otherwise, and a worker's is never the first.
    connection.pragma_update(None, "synchronous", "off")?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.execute_batch(SCHEMA)?;
    connection.pragma_update(None, "synchronous", "normal")?;
    Ok(Store { connection })
}

/// All results in the store at `path`; see [`Store::rows`].
///
/// # Errors
/// [`StoreError::Sqlite`] when there is no store at `path`, or a row in it is not one that a worker writes.
pub fn read(path: &Path) -> Result<Vec<Row>, StoreError> {
    rows(&open(path)?)
}

fn rows(connection: &Connection) -> Result<Vec<Row>, StoreError> {
    let mut select = connection.prepare(
        "SELECT request, worker, pid, addends, sum, committed_us FROM results ORDER BY committed_us, request",
    )?;
    let rows = select.query_map([], |row| {
        let text = |index, problem| rusqlite::Error::FromSqlConversionFailure(index, Type::Text, problem);
        let worker: String = row.get(1)?;
        let addends: String = row.get(3)?;
        Ok(Row {
            request: RequestId(row.get(0)?),
            worker: worker.parse().map_err(|bad: scenarios::id::BadId| text(1, bad.into()))?,
            pid: row.get(2)?,
            addends: serde_json::from_str(&addends).map_err(|bad| text(3, bad.into()))?,
            sum: row.get(4)?,
            committed_us: row.get::<_, i64>(5)?.cast_unsigned(),
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// A worker's connection to the store, opened once.
#[derive(Debug)]
pub struct Writer {
    connection: Connection,
}

impl Writer {
    /// Opens the store at `path`, which [`create`] has made.
    ///
    /// # Errors
    /// [`StoreError::Sqlite`] when there is none or it can't be written, [`StoreError::Busy`] when it stays locked.
    pub fn open(path: &Path) -> Result<Writer, StoreError> {
        let mut connection = open(path)?;
        // A worker neither waits for the disk in the middle of a drill nor at its exit: the log stays as it is.
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        // Reads the log and compiles the statement, so that the first commit is as fast as the others.
        connection.prepare_cached(INSERT)?;
        look_again_for(&mut connection, COMMIT_PATIENCE)?;
        Ok(Writer { connection })
    }

    /// Commits one result. When this returns `Ok`, it is in the store for good. Blocks for 1 ms at most when another
    /// process holds the lock.
    ///
    /// # Errors
    /// [`StoreError::Busy`] when the lock is held for longer, [`StoreError::Duplicate`] when the request has a result
    /// already, [`StoreError::Sqlite`] for anything else; nothing is committed then.
    pub fn commit(&self, row: &Row) -> Result<(), StoreError> {
        let addends = serde_json::to_string(&row.addends).unwrap_or_default();
        let mut insert = self.connection.prepare_cached(INSERT)?;
        let values =
            params![row.request.0, row.worker.to_string(), row.pid, addends, row.sum, row.committed_us.cast_signed()];
        match insert.execute(values) {
            Ok(_) => Ok(()),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
                Err(StoreError::Duplicate(row.request))
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn open(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    look_again_for(&mut connection, OPEN_PATIENCE)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.pragma_update(None, "synchronous", "normal")?;
    Ok(connection)
}

/// Makes `connection` look again for `patience` when it finds the store locked.
fn look_again_for(connection: &mut Connection, patience: Duration) -> Result<(), StoreError> {
    let mut until_ns = 0;
    connection.busy_handler(Some(move |looked: i32| {
        let now_ns = clock::now_ns();
        if looked == 0 {
            until_ns = now_ns + patience.as_nanos() as u64;
        }
        let again = now_ns < until_ns;
        if again {
            clock::block_for(LOOK_AGAIN);
        }
        again
    }))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(request: u16) -> Row {
        let request = RequestId(request);
        let (addends, sum) = (request.addends().to_vec(), request.sum());
        Row { request, worker: WorkerId(1), pid: 1, addends, sum, committed_us: 1_000 - u64::from(request.0) }
    }

    fn new_store() -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.sqlite");
        create(&path).unwrap();
        (folder, path)
    }

    #[test]
    fn rows_read_back_in_the_order_of_their_commits() {
        let (_folder, path) = new_store();
        assert_eq!(read(&path).unwrap(), []);
        // The log is begun and nobody has taken it back into the database: no worker has to begin it, which is what
        // would wait for the disk.
        assert!(path.with_extension("sqlite-wal").metadata().unwrap().len() > 0);
        let writers = [Writer::open(&path).unwrap(), Writer::open(&path).unwrap()];
        for request in 1..=20 {
            writers[usize::from(request) % 2].commit(&row(request)).unwrap();
        }
        let expected: Vec<Row> = (1..=20).rev().map(row).collect();
        assert_eq!(read(&path).unwrap(), expected, "while the writers are there");
        drop(writers);
        assert_eq!(read(&path).unwrap(), expected, "after they are gone");
    }

    #[test]
    fn a_second_commit_of_a_request_is_an_error_and_changes_nothing() {
        let (_folder, path) = new_store();
        let writer = Writer::open(&path).unwrap();
        writer.commit(&row(7)).unwrap();
        let second = Row { sum: 99, ..row(7) };
        assert!(matches!(writer.commit(&second), Err(StoreError::Duplicate(RequestId(7)))));
        assert_eq!(read(&path).unwrap(), [row(7)]);
    }

    #[test]
    fn a_lock_is_waited_for_but_not_for_long() {
        let (_folder, path) = new_store();
        let writer = Writer::open(&path).unwrap();
        let other = open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let before_ns = clock::now_ns();
        assert!(matches!(writer.commit(&row(1)), Err(StoreError::Busy)));
        assert!(clock::now_ns() - before_ns >= COMMIT_PATIENCE.as_nanos() as u64);
        other.execute_batch("COMMIT").unwrap();
        writer.commit(&row(1)).unwrap();
    }

    #[test]
    fn what_is_no_store_is_an_error() {
        let (folder, path) = new_store();
        assert!(matches!(create(&path), Err(StoreError::Create(_))), "there is one already");
        assert!(matches!(create(&folder.path().join("no/where")), Err(StoreError::Create(_))));
        let missing = folder.path().join("missing");
        assert!(matches!(Writer::open(&missing), Err(StoreError::Sqlite(_))));
        assert!(matches!(read(&missing), Err(StoreError::Sqlite(_))));
        assert!(!missing.exists(), "looking must not create it");
        let text = folder.path().join("text");
        std::fs::write(&text, "not a database, but long enough to have a header if it were one".repeat(9)).unwrap();
        assert!(matches!(Writer::open(&text), Err(StoreError::Sqlite(_))));
    }

    #[test]
    fn a_row_that_no_worker_writes_is_an_error() {
        let (_folder, path) = new_store();
        open(&path).unwrap().execute("INSERT INTO results VALUES (1, 'me', 1, '[1]', 1, 1)", []).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("worker-N"));
    }
}
