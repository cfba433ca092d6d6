//! Directories that nobody is meant to find afterwards.
//!
//! One is removed by whoever made it, as it is dropped. Where that process is killed, the processes that it started in
//! namespaces of their own notice and remove it; where they are killed with it, the next one that needs such a directory
//! does: it is held by a lock on a file in it (`flock(2)`), which ends with its owner.

use std::{
    env,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use tempfile::TempDir;
use worker::clock;

use crate::failure::Failure;

const PREFIX: &str = "termdrill-";
/// The file that is locked as long as the directory is in use.
const HELD: &str = "held-by-its-owner";

/// A directory that is removed when it is dropped.
#[derive(Debug)]
pub struct Scratch {
    folder: TempDir,
    _held: File,
}

impl Scratch {
    /// Makes one, and removes those of processes that were killed.
    ///
    /// # Errors
    /// It can't be made.
    pub fn make() -> Result<Scratch, Failure> {
        let parent = env::temp_dir();
        Self::make_in(&parent).map_err(|error| {
            Failure::of_io("make a directory in", &parent, &error).hint("TMPDIR says where temporary files go")
        })
    }

    fn make_in(parent: &Path) -> io::Result<Scratch> {
        remove_leftovers(parent);
        let folder = TempDir::with_prefix_in(PREFIX, parent)?;
        // Locked before it has the name that others look for.
        let new = folder.path().join("new");
        let held = File::create(&new)?;
        held.lock()?;
        fs::rename(new, folder.path().join(HELD))?;
        Ok(Scratch { folder, _held: held })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the directories of which nobody holds the lock. What can't be removed stays.
fn remove_leftovers(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let ours = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        if ours
            && let Ok(held) = File::open(entry.path().join(HELD))
            && held.try_lock().is_ok()
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// What is to be removed by this process if whoever made it goes away first.
static ADOPTED: OnceLock<PathBuf> = OnceLock::new();

/// Takes over the care for a scratch directory, should its owner go away.
pub fn adopt(scratch: &Path) {
    // A process works in one.
    let _ = ADOPTED.set(scratch.to_owned());
}

/// How often that is tried: whoever else works in it may still write, or removes it at the same time.
const TRIES: u32 = 20;

/// Removes what was adopted: its owner is gone.
pub fn remove_adopted() {
    if let Some(scratch) = ADOPTED.get() {
        for _ in 0..TRIES {
            let _ = fs::remove_dir_all(scratch);
            if !scratch.exists() {
                return;
            }
            clock::block_for(Duration::from_millis(5));
        }
    }
}

/// Removes everything in `directory`.
///
/// # Errors
/// It can't be read, or something in it can't be removed.
pub fn clear(directory: &Path) -> Result<(), Failure> {
    let unusable = |error: &io::Error| Failure::of_io("clear", directory, error);
    for entry in fs::read_dir(directory).map_err(|error| unusable(&error))? {
        let path = entry.map_err(|error| unusable(&error))?.path();
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(|error| unusable(&error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_holds_any_more_is_removed_by_the_next_one() {
        let parent = tempfile::tempdir().unwrap();
        let foreign = parent.path().join("termdrill-notes");
        fs::create_dir(&foreign).unwrap();
        let held = Scratch::make_in(parent.path()).unwrap();
        // As it is left by a process that was killed: the lock is gone, the directory is not.
        let killed = Scratch::make_in(parent.path()).unwrap();
        let left = killed.folder.keep();
        drop(killed._held);
        fs::write(left.join("store.sqlite"), "x").unwrap();

        let next = Scratch::make_in(parent.path()).unwrap();
        assert!(!left.exists());
        assert!(held.path().is_dir() && next.path().is_dir() && foreign.is_dir());
        let gone = [held.path().to_owned(), next.path().to_owned()];
        drop((held, next));
        assert!(gone.iter().all(|path| !path.exists()));
    }

    #[test]
    fn a_cleared_directory_is_there_and_empty() {
        let parent = tempfile::tempdir().unwrap();
        fs::create_dir_all(parent.path().join("measurement/scripts")).unwrap();
        fs::write(parent.path().join("store.sqlite-wal"), "x").unwrap();
        std::os::unix::fs::symlink("nowhere", parent.path().join("link")).unwrap();
        clear(parent.path()).unwrap();
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
        assert!(clear(&parent.path().join("nowhere")).is_err());
    }
}
