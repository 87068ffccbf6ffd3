//! What a federated model takes of a device: vectors, parameters, bytes, CPU time.

use super::{line, rows};
use crate::results::{Results, Row};
use sottovoce_evaluate::report::plot::{Axis, Bars, Unit};
use sottovoce_evaluate::report::{self, Cell, Column, Format, Plot, Section, Table};

/// Columns: figure, title, help.
const COLUMNS: [(&str, &str, Format, &str); 8] = [
    (
        "device_item_vectors",
        "Item vectors",
        Format::Integer,
        "Vectors of items that a device holds at a time: the whole catalog's in the shared model, or a session's.",
    ),
    ("device_private_values", "Own parameters", Format::Integer, "Values of the private model."),
    ("device_shared_values", "Shared parameters", Format::Integer, "Values of the shared model."),
    ("device_private_bytes", "Stored", Format::Bytes, "The private model, as a device keeps it between rounds."),
    ("device_shared_bytes", "Shared model", Format::Bytes, "The whole shared model, as it is sent."),
    ("device_working_bytes", "Buffers", Format::Bytes, "Memory in which the model trains, for models that count it."),
    ("device_round_seconds", "CPU a round", Format::Seconds, "CPU time of a device's training in a round, mean."),
    (
        "device_session_seconds",
        "CPU a session",
        Format::Seconds,
        "CPU time of an epoch over a session, which the paper calls a local batch.",
    ),
];

/// Of the columns, those with bytes, which are plotted.
const BYTES: std::ops::Range<usize> = 3..6;

/// What the paper of ReFRS prints: vectors, parameters, bytes, time of a local batch.
const PUBLISHED: [(&str, &str, f64, &str, &str); 2] = [
    ("FedAvg and FedFast, GMF", "18,000 to 28,000", 35_564.0, "2.43 to 3.78 MB", "45 min"),
    ("ReFRS", "100", 50_239.0, "270 kB", "3 s"),
];

/// For experiments with federated rows.
pub(super) fn section(results: &Results) -> Option<Section> {
    let measured: Vec<_> = rows(results).filter(|(_, row)| value(row, COLUMNS[0].0).is_some()).collect();
    if measured.is_empty() {
        return None;
    }
    let mut table = Table::new("What a device holds", "Model")
        .note("Measured in this run, means over seeds. CPU time is that of one core of this machine.");
    for (key, title, format, help) in COLUMNS {
        table = table.column(Column::new(key, title).format(format).help(help));
    }
    for (data, row) in &measured {
        let cells = COLUMNS.iter().map(|(key, ..)| Cell::maybe(value(row, key)));
        table = table.row(cells.fold(line(results, data, row), report::Row::cell));
    }
    if measured.iter().any(|(_, row)| row.model == "refrs") {
        table =
            PUBLISHED.into_iter().map(published).fold(table, Table::row).note(
                "Published: Imran et al., table 8, on a 2.2 GHz CPU; the size is that of the file of embeddings.",
            );
    }
    let labels = measured.iter().map(|(data, row)| match results.data.len() {
        1 => row.label.clone(),
        _ => format!("{}, {}", row.label, data.label),
    });
    let bars = COLUMNS[BYTES].iter().map(|(key, title, ..)| {
        let bytes = measured.iter().map(|(_, row)| value(row, key).unwrap_or(f64::NAN));
        Bars::new(*title, bytes)
    });
    let plot = Plot::bars("Bytes on a device", Axis::new("bytes").unit(Unit::Bytes), labels, bars.collect());
    Some(Section::new("Footprint on a device").table(table).plot(plot.full_width()))
}

fn value(row: &Row, key: &str) -> Option<f64> {
    row.figures.get(key).map(|spread| spread.mean)
}

fn published((model, vectors, parameters, bytes, time): (&str, &str, f64, &str, &str)) -> report::Row {
    let none = Cell::default;
    let (vectors, bytes, time) = (Cell::text(vectors), Cell::text(bytes), Cell::text(time));
    let cells = [vectors, Cell::number(parameters), none(), bytes, none(), none(), none(), time];
    let row = report::Row::new(format!("{model} (published)")).reference();
    cells.into_iter().fold(row, report::Row::cell)
}
