//! Paths in JSON. A path need not be UTF-8, and serde's own way refuses one that is not.

/// For other processes of ours: every byte of it.
pub(crate) mod exact {
    use std::{
        ffi::OsString,
        path::{Path, PathBuf},
    };

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        path.as_os_str().serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        OsString::deserialize(deserializer).map(PathBuf::from)
    }
}

/// The same for a path that need not be there.
pub(crate) mod exact_option {
    use std::{ffi::OsString, path::PathBuf};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
        path.as_ref().map(|path| path.as_os_str()).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
        Ok(Option::<OsString>::deserialize(deserializer)?.map(PathBuf::from))
    }
}

/// For people and their programs: as text, with U+FFFD for what is none.
pub(crate) mod shown {
    use std::path::Path;

    use serde::Serializer;

    pub(crate) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&path.display())
    }
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::PathBuf};

    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Job {
        #[serde(with = "super::exact")]
        path: PathBuf,
        #[serde(with = "super::exact_option")]
        other: Option<PathBuf>,
    }

    #[derive(Serialize)]
    struct Document {
        #[serde(with = "super::shown")]
        path: PathBuf,
    }

    #[test]
    fn a_path_that_is_not_utf_8_arrives() {
        let odd = || PathBuf::from(OsStr::from_bytes(b"/runs/\xff\xfe/\xc3\xa4"));
        for job in [Job { path: odd(), other: Some(odd()) }, Job { path: PathBuf::from("/plain"), other: None }] {
            let text = serde_json::to_string(&job).unwrap();
            assert_eq!(serde_json::from_str::<Job>(&text).unwrap(), job);
        }
        let shown = serde_json::to_string(&Document { path: odd() }).unwrap();
        assert_eq!(shown, "{\"path\":\"/runs/\u{fffd}\u{fffd}/ä\"}");
    }
}
