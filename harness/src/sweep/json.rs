//! The grid as one JSON document, written as it is played: `scenario`, `axes`, `points` and, where it was asked for,
//! `find`.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    confirm::Confirmed,
    find::Answer,
    grid::{Cell, Grid},
    sink::Sink,
};
use crate::failure::Failure;

pub(super) struct Json {
    sink: Sink,
    first: bool,
}

/// What `find` holds: the answer, and what real processes made of it.
#[derive(Serialize)]
struct Found<'a> {
    #[serde(flatten)]
    answer: &'a Answer,
    confirmed: &'a [Confirmed],
}

impl Json {
    pub(super) fn begin(mut sink: Sink, grid: &Grid) -> Result<Json, Failure> {
        let axes = grid.axes().iter().map(|axis| {
            let values: Vec<&Value> = axis.values.iter().map(|choice| &choice.value).collect();
            json!({ "field": axis.field.name, "unit": axis.field.unit, "values": values })
        });
        let axes = Value::Array(axes.collect());
        let scenario = text(grid.base())?;
        sink.write(format!("{{\"scenario\":{scenario},\"axes\":{axes},\"points\":[").as_bytes())?;
        Ok(Json { sink, first: true })
    }

    /// A point: the fields that are varied, then the counts, by the names of the columns of the CSV form.
    pub(super) fn row(&mut self, grid: &Grid, places: &[usize], cell: Cell) -> Result<(), Failure> {
        let fields = grid.axes().iter().zip(places);
        let mut point: Map<String, Value> =
            fields.map(|(axis, &place)| (axis.field.name.to_owned(), axis.values[place].value.clone())).collect();
        let Cell { arrivals, admitted, rejected, rejected_percent, completed, killed, running, gate } = cell;
        let counts = json!({
            "arrivals": arrivals,
            "admitted": admitted,
            "rejected": rejected,
            "rejected_percent": rejected_percent,
            "completed": completed,
            "killed": killed,
            "running": running,
            "gate": gate,
        });
        if let Value::Object(counts) = counts {
            point.extend(counts);
        }
        let separator = if std::mem::take(&mut self.first) { "" } else { "," };
        self.sink.write(format!("{separator}{}", text(&point)?).as_bytes())
    }

    pub(super) fn end(mut self, found: Option<(&Answer, &[Confirmed])>) -> Result<(), Failure> {
        let find = text(&found.map(|(answer, confirmed)| Found { answer, confirmed }))?;
        self.sink.write(format!("],\"find\":{find}}}\n").as_bytes())?;
        self.sink.flush()
    }
}

fn text(value: &impl Serialize) -> Result<String, Failure> {
    // None of these types can fail to be written as JSON.
    serde_json::to_string(value).map_err(|error| Failure::unable(error.to_string()))
}
