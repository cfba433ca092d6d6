//! The grid as comma-separated values (RFC 4180): a line a point.

use super::{
    axis::Axis,
    grid::{Cell, Grid},
    sink::Sink,
};
use crate::failure::Failure;

/// The columns after those of the fields that are varied.
pub(super) const COLUMNS: [&str; 8] =
    ["arrivals", "admitted", "rejected", "rejected_percent", "completed", "killed", "running", "gate"];

pub(super) struct Csv {
    sink: Sink,
}

impl Csv {
    /// Begins with the line of names.
    pub(super) fn begin(mut sink: Sink, grid: &Grid) -> Result<Csv, Failure> {
        let names: Vec<&str> = grid.axes().iter().map(|axis| axis.field.name).chain(COLUMNS).collect();
        sink.write(format!("{}\n", names.join(",")).as_bytes())?;
        Ok(Csv { sink })
    }

    pub(super) fn row(&mut self, axes: &[Axis], places: &[usize], cell: Cell) -> Result<(), Failure> {
        let mut line = String::new();
        for (axis, &place) in axes.iter().zip(places) {
            line.push_str(&quoted(&axis.values[place].label));
            line.push(',');
        }
        let Cell { arrivals, admitted, rejected, rejected_percent, completed, killed, running, gate } = cell;
        let gate = super::gate_name(gate);
        line.push_str(&format!(
            "{arrivals},{admitted},{rejected},{rejected_percent:.1},{completed},{killed},{running},{gate}\n"
        ));
        self.sink.write(line.as_bytes())
    }

    pub(super) fn end(mut self) -> Result<(), Failure> {
        self.sink.flush()
    }
}

/// `value` in quotes where it holds something that would part or end it.
fn quoted(value: &str) -> String {
    if value.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", value.replace('"', "\"\""))
    } else {
        value.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn what_would_part_a_value_is_quoted() {
        for (value, expected) in [
            ("0.5", "0.5"),
            ("script_trap", "script_trap"),
            (r#"["tini","--","{worker}"]"#, r#""[""tini"",""--"",""{worker}""]""#),
            ("a,b", "\"a,b\""),
            ("a\nb", "\"a\nb\""),
            ("\"", "\"\"\"\""),
            ("", ""),
        ] {
            assert_eq!(quoted(value), expected);
        }
    }
}
