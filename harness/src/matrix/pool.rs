//! Many cells side by side, each in an inner process of its own: most of a cell is waiting.

use std::{fs, path::Path, rc::Rc};

use anyhow::Context;
use tokio::{sync::mpsc, task::JoinSet};

use super::{
    CELL,
    cell::{Cell, Seen},
    play::RESULT,
};
use crate::isolation::{Isolation, start_inside};

/// Plays all cells, `jobs` at a time, and gives what was seen of each in their order. `done` hears how many are over.
///
/// What came out inconclusive may have been too much at once: it is played again, in smaller company.
///
/// # Errors
/// No directory can be made for a cell.
pub(super) async fn play_all(
    cells: &[Cell],
    jobs: usize,
    isolation: &Isolation,
    mut done: impl FnMut(usize),
) -> anyhow::Result<Vec<Seen>> {
    let indices: Vec<usize> = (0..cells.len()).collect();
    let mut all = play_some(cells, &indices, jobs, isolation, &mut done).await?;
    let may_pass = |seen: &Seen| matches!(seen, Seen::Inconclusive(_));
    let again: Vec<usize> = indices.into_iter().filter(|&index| may_pass(&all[index])).collect();
    // What fails in that many cells is not for lack of time.
    if again.len() <= cells.len().div_ceil(10) {
        let repeated = play_some(cells, &again, jobs.div_ceil(16), isolation, &mut |_| ()).await?;
        for (index, seen) in again.into_iter().zip(repeated) {
            all[index] = seen;
        }
    }
    Ok(all)
}

async fn play_some(
    cells: &[Cell],
    indices: &[usize],
    jobs: usize,
    isolation: &Isolation,
    done: &mut dyn FnMut(usize),
) -> anyhow::Result<Vec<Seen>> {
    let (results, mut seen) = mpsc::unbounded_channel();
    let isolation = Rc::new(isolation.clone());
    let mut tasks = JoinSet::new();
    let mut waiting = indices.iter().map(|&index| &cells[index]).enumerate();
    let mut all: Vec<Option<Seen>> = vec![None; indices.len()];
    let mut running = 0;
    loop {
        while running < jobs {
            let Some((index, cell)) = waiting.next() else { break };
            fs::create_dir_all(&cell.directory).context("no directory can be made for a cell")?;
            let (cell, isolation, results) = (cell.clone(), Rc::clone(&isolation), results.clone());
            tasks.spawn_local(async move {
                let seen =
                    play(&cell, &isolation).await.unwrap_or_else(|error| Seen::Inconclusive(format!("{error:#}")));
                // Nobody listens any more when the matrix was stopped.
                let _ = results.send((index, seen));
            });
            running += 1;
        }
        if running == 0 {
            break;
        }
        let Some((index, result)) = seen.recv().await else { break };
        all[index] = Some(result);
        running -= 1;
        done(indices.len() - waiting.len() - running);
    }
    Ok(all.into_iter().map(|seen| seen.unwrap_or_else(|| Seen::Inconclusive("it was not played".to_owned()))).collect())
}

async fn play(cell: &Cell, isolation: &Isolation) -> anyhow::Result<Seen> {
    let (inner, control) = start_inside(&[CELL], &mut isolation.clone(), cell)?;
    inner.watch()?.await;
    drop(control);
    let status = inner.reap().map(|ended| ended.status);
    let seen = read(&cell.directory).with_context(|| format!("the cell's process ended with {status:?}"));
    // What is left of it is of no use to anybody.
    let _ = fs::remove_dir_all(&cell.directory);
    seen
}

fn read(directory: &Path) -> anyhow::Result<Seen> {
    Ok(serde_json::from_slice(&fs::read(directory.join(RESULT))?)?)
}
