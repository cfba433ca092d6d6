//! The environment of everything that the matrix starts.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

use crate::entry::SH;

/// Variables that make a difference between machines, or between users of one.
const LEFT_OUT: [&str; 7] =
    ["BASH_ENV", "ENV", "ZDOTDIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"];

/// Our own environment without those, and with `own`. What programs keep in a home is kept in `directory`, and none asks
/// the network for news.
pub(super) fn with(directory: &Path, own: &[(&str, OsString)]) -> Vec<(OsString, OsString)> {
    let common: [(&str, OsString); 5] = [
        ("HOME", directory.into()),
        ("SHELL", SH.into()),
        ("npm_config_update_notifier", "false".into()),
        ("npm_config_cache", directory.join("npm").into()),
        ("npm_config_userconfig", directory.join("npmrc").into()),
    ];
    let set = || common.iter().chain(own);
    let keep = |name: &OsStr| {
        let bytes = name.as_encoded_bytes();
        let known = set().any(|(known, _)| name == *known) || LEFT_OUT.iter().any(|out| name == *out);
        !known && !bytes.starts_with(b"TERMDRILL_") && !bytes.starts_with(b"npm_")
    };
    let inherited = std::env::vars_os().filter(|(name, _)| keep(name));
    inherited.chain(set().map(|(name, value)| (OsString::from(name), value.clone()))).collect()
}
