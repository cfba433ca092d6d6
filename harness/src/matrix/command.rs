//! The command line and the environment of a cell.

use std::{ffi::OsString, fs};

use anyhow::Context;
use scenarios::{Schedule, WorkerId, entrypoint::WORKER_PLACEHOLDER, prediction::SCRIPT_PLACEHOLDER, wire};

use super::{cell::Cell, environment};
use crate::{drill::notify::NotifySocket, entry, host};

/// The cell's command with the real worker in it; its script is written first.
pub(super) fn command_line(cell: &Cell) -> anyhow::Result<Vec<OsString>> {
    let worker = host::worker_command(None).context("the worker's program can't be found")?;
    let line = entry::quoted(&worker)?;
    let line = line.to_string_lossy();
    let script = cell.directory.join(&cell.row.script_name);
    if let Some(text) = &cell.row.script {
        let text = text.replace(WORKER_PLACEHOLDER, &line);
        let text = match cell.row.script_name.as_str() {
            "package.json" => serde_json::json!({ "name": "cell", "scripts": { "start": text } }).to_string(),
            _ => text,
        };
        fs::write(&script, text).context("the script can't be written")?;
    }
    let mut argv: Vec<OsString> = Vec::new();
    for word in &cell.row.command {
        if word == WORKER_PLACEHOLDER && !entry::is_text(&argv) {
            argv.extend_from_slice(&worker);
        } else {
            let word = word.replace(WORKER_PLACEHOLDER, &line);
            let word = word.replace(SCRIPT_PLACEHOLDER, &script.to_string_lossy());
            argv.push(word.replace("{directory}", &cell.directory.to_string_lossy()).into());
        }
    }
    Ok(argv)
}

/// What makes the command a worker of this cell.
pub(super) fn environment(
    cell: &Cell,
    port: u16,
    socket: &NotifySocket,
    schedule: Schedule,
    invocation_ticks: u64,
) -> Vec<(OsString, OsString)> {
    let own: [(&str, OsString); 9] = [
        (wire::env::PORT, port.to_string().into()),
        (wire::env::NOTIFY_SOCKET, socket.address().into()),
        (wire::env::WORKER, WorkerId::FIRST.to_string().into()),
        (wire::env::ORIGIN_NS, schedule.origin_ns.to_string().into()),
        (wire::env::TICK_NS, schedule.tick_ns.to_string().into()),
        (wire::env::READY_TICK, "0".into()),
        (wire::env::INVOCATION_TICKS, invocation_ticks.to_string().into()),
        (wire::env::ON_SIGTERM, cell.posture.name().into()),
        (wire::env::STORE, cell.store().into()),
    ];
    environment::with(&cell.directory, &own)
}
