//! Tables as CSV (RFC 4180): full precision, one line a row, uncertainty in columns of its own.

use super::table::{Cell, Table};

impl Table {
    /// The table as CSV.
    ///
    /// After a `group` column (if there are groups) and the labels, each column gives `key`, and where any cell has
    /// them `key_sd`, `key_low`, `key_high` and `key_marks`. Missing values are empty.
    pub fn to_csv(&self) -> String {
        let grouped = self.rows.iter().any(|row| !row.group.is_empty());
        let extras: Vec<Extras> = (0..self.columns.len()).map(|column| Extras::of(self, column)).collect();
        let mut lines = vec![self.heading(grouped, &extras)];
        let empty = Cell::default();
        for row in &self.rows {
            let mut line = Vec::new();
            if grouped {
                line.push(row.group.clone());
            }
            line.push(row.label.clone());
            for (column, extra) in extras.iter().enumerate() {
                extra.values(row.cells.get(column).unwrap_or(&empty), &mut line);
            }
            lines.push(line);
        }
        lines.iter().map(|line| join(line)).collect()
    }

    fn heading(&self, grouped: bool, extras: &[Extras]) -> Vec<String> {
        let mut line: Vec<String> = Vec::new();
        if grouped {
            line.push("group".into());
        }
        line.push(if self.stub.is_empty() { "label".into() } else { self.stub.to_lowercase() });
        for (column, extra) in self.columns.iter().zip(extras) {
            extra.names(&column.key, &mut line);
        }
        line
    }
}

/// Which companions a column needs.
struct Extras {
    spread: bool,
    interval: bool,
    marks: bool,
}

impl Extras {
    fn of(table: &Table, column: usize) -> Extras {
        let any = |has: fn(&Cell) -> bool| table.rows.iter().filter_map(|r| r.cells.get(column)).any(has);
        Extras {
            spread: any(|c| c.spread.is_some()),
            interval: any(|c| c.interval.is_some()),
            marks: any(|c| !c.marks.is_empty()),
        }
    }

    fn names(&self, key: &str, line: &mut Vec<String>) {
        line.push(key.into());
        let companions = [(self.spread, "sd"), (self.interval, "low"), (self.interval, "high"), (self.marks, "marks")];
        line.extend(companions.iter().filter(|(wanted, _)| *wanted).map(|(_, name)| format!("{key}_{name}")));
    }

    fn values(&self, cell: &Cell, line: &mut Vec<String>) {
        line.push(cell.text.clone().unwrap_or_else(|| number(cell.value)));
        if self.spread {
            line.push(number(cell.spread));
        }
        if self.interval {
            line.push(number(cell.interval.map(|i| i.0)));
            line.push(number(cell.interval.map(|i| i.1)));
        }
        if self.marks {
            line.push(cell.marks.iter().map(|mark| mark.symbol.as_str()).collect());
        }
    }
}

/// The shortest text that reads back as the same number; empty if it is none.
fn number(value: Option<f64>) -> String {
    value.filter(|x| x.is_finite()).map(|x| format!("{x}")).unwrap_or_default()
}

fn join(fields: &[String]) -> String {
    let quoted: Vec<String> = fields.iter().map(|field| quote(field)).collect();
    quoted.join(",") + "\r\n"
}

fn quote(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) || field.trim() != field {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.into()
    }
}
