//! Tables on the page.

use crate::report::markup::{escape, inline, unless_empty};
use crate::report::number::{Format, typographic};
use crate::report::table::{Cell, CellRank, Column, Direction, Row, Table};

/// Text with more characters than this gets a wide column.
const LONG: usize = 80;

/// A table with its caption, legend and explanations; `name` is that of its CSV file.
pub(super) fn table(table: &Table, name: &str) -> String {
    let cell_ranks = table.cell_ranks();
    let mut out = format!("<figure class=\"table\"{} id=\"table-{name}\">\n", shape(table));
    out += &caption(table, name);
    out += "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"";
    out += &escape(&table.caption);
    out += "\">\n<table>\n";
    out += &heading(table);
    for (group, rows) in table.groups() {
        out += "<tbody>\n";
        if !group.is_empty() {
            let span = table.columns.len() + 1;
            out += &format!(
                "<tr class=\"group\"><th colspan=\"{span}\" scope=\"rowgroup\"><span>{}</span></th></tr>\n",
                escape(group)
            );
        }
        out.extend(rows.into_iter().map(|at| line(table, &table.rows[at], &cell_ranks[at])));
        out += "</tbody>\n";
    }
    if table.rows.is_empty() {
        let span = table.columns.len() + 1;
        out += &format!("<tbody><tr><td class=\"none\" colspan=\"{span}\">No rows</td></tr></tbody>\n");
    }
    out += "</table>\n</div>\n";
    // Two figures fit beside the labels on a phone.
    if table.columns.len() > 2 {
        out += "<p class=\"swipe\" aria-hidden=\"true\">more columns to the right →</p>\n";
    }
    out += &legend(table, &cell_ranks);
    out += &explanations(table);
    out + "</figure>\n"
}

/// How wide the table and its labels should be.
///
/// Few columns spread over a whole page are hard to read along, so narrow tables stay narrow; long labels get room
/// before they break.
fn shape(table: &Table) -> String {
    let weight: usize = table.columns.iter().map(|c| if c.format == Format::Text { 2 } else { 1 }).sum();
    let longest = table.rows.iter().map(|row| row.label.chars().count().max(row.detail.chars().count())).max();
    let label = longest.unwrap_or(0).clamp(10, 60) * 6 / 10;
    let width = if weight < 7 { format!(";max-width:{}em", 15 + 9 * weight) } else { String::new() };
    format!(" style=\"--label:{label}em{width}\"")
}

fn caption(table: &Table, name: &str) -> String {
    let label = match &table.label {
        Some(label) => format!(" <span class=\"badge\">{}</span>", escape(label)),
        None => String::new(),
    };
    // The data travels in the link, so that it can be saved from a page without a server or a script.
    let data = percent_encode(&table.to_csv());
    format!(
        "<figcaption><h3>{}{label}</h3><a class=\"save\" download=\"{name}.csv\" \
         href=\"data:text/csv;charset=utf-8,{data}\">CSV</a></figcaption>\n",
        escape(&table.caption)
    )
}

fn heading(table: &Table) -> String {
    let mut out = format!("<thead>\n<tr><th scope=\"col\" class=\"stub\">{}</th>", escape(&table.stub));
    for column in &table.columns {
        let class = if column.format == Format::Text { "words" } else { "num" };
        let up = column.direction == Direction::LowerBetter || column.format == Format::Text;
        let first = if up { "up" } else { "down" };
        let arrow = unless_empty(column.direction.arrow(), |arrow| format!("<i aria-hidden=\"true\">{arrow}</i>"));
        let title = help(column);
        let title = unless_empty(&title, |text| format!(" title=\"{}\"", escape(text)));
        out += &format!(
            "<th scope=\"col\" class=\"{class}\" data-first=\"{first}\"{title}>{}{arrow}</th>",
            escape(&column.title)
        );
    }
    out + "</tr>\n</thead>\n"
}

fn help(column: &Column) -> String {
    let parts = [column.help.as_str(), column.direction.words()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

fn line(table: &Table, row: &Row, cell_ranks: &[CellRank]) -> String {
    let class = match (row.highlight, row.reference) {
        (true, _) => " class=\"set-off\"",
        (_, true) => " class=\"reference\"",
        _ => "",
    };
    let detail = unless_empty(&row.detail, |text| format!("<small>{}</small>", escape(text)));
    let mut out = format!("<tr{class}><th scope=\"row\">{}{detail}</th>", escape(&row.label));
    let empty = Cell::default();
    for (at, column) in table.columns.iter().enumerate() {
        out += &cell(row.cells.get(at).unwrap_or(&empty), column, cell_ranks[at]);
    }
    out + "</tr>\n"
}

fn cell(cell: &Cell, column: &Column, rank: CellRank) -> String {
    if column.format == Format::Text {
        let words = cell.shown(Format::Text);
        let long = if words.chars().count() > LONG { " long" } else { "" };
        // A setting and its value stay on one line.
        let words = escape(&words).replace(" = ", "\u{a0}=\u{a0}");
        return format!("<td class=\"words{long}\">{words}{}</td>", marks(cell));
    }
    let class = match rank {
        CellRank::Best => "num best",
        CellRank::Second => "num second",
        CellRank::Other => "num",
    };
    let value = cell.finite().map(|v| format!(" data-v=\"{v}\"")).unwrap_or_default();
    let shown = cell.text.as_deref().map_or_else(|| typographic(&cell.shown(column.format)), Into::into);
    let shown = match cell.text.is_none() && cell.finite().is_none() {
        true => "<span class=\"none\" title=\"no value\">–</span>".into(),
        false => format!("<b>{}</b>", escape(&shown)),
    };
    format!("<td class=\"{class}\"{value}>{shown}{}{}</td>", marks(cell), uncertainty(cell, column.format))
}

/// Signs hang in the margin of their cell, so that digits stay aligned.
fn marks(cell: &Cell) -> String {
    if cell.marks.is_empty() {
        return String::new();
    }
    let say = |m: &crate::report::Mark| match &m.detail {
        Some(detail) => format!("{} ({detail})", m.meaning),
        None => m.meaning.clone(),
    };
    let words: Vec<String> = cell.marks.iter().map(say).collect();
    let symbols: String = cell.marks.iter().map(|m| m.symbol.as_str()).collect();
    format!("<sup title=\"{}\">{}</sup>", escape(&words.join("\n")), escape(&symbols))
}

fn uncertainty(cell: &Cell, format: Format) -> String {
    let finite = |x: &f64| x.is_finite();
    let spread = cell.spread.filter(finite).map(|s| format!("± {}", format.show_fine(s)));
    let interval = cell.interval.filter(|(low, high)| finite(low) && finite(high));
    let interval = interval.map(|(low, high)| format!("{}–{}", format.show_fine(low), format.show_fine(high)));
    let parts: Vec<String> = spread.into_iter().chain(interval).collect();
    if parts.is_empty() { String::new() } else { format!("<small>{}</small>", escape(&parts.join(" · "))) }
}

fn legend(table: &Table, cell_ranks: &[Vec<CellRank>]) -> String {
    let seen = |wanted| cell_ranks.iter().flatten().any(|s| *s == wanted);
    let mut items: Vec<String> = Vec::new();
    let scope = if table.best_in_group { " of its group" } else { "" };
    items.extend(seen(CellRank::Best).then(|| format!("<span class=\"best\"><b>Bold</b></span> best{scope}")));
    items.extend(seen(CellRank::Second).then(|| "<span class=\"second\"><b>underlined</b></span> second best".into()));
    let has = |test: fn(&Cell) -> bool| table.rows.iter().flat_map(|row| &row.cells).any(test);
    items.extend(has(|c| c.spread.is_some()).then(|| "± standard deviation".into()));
    items.extend(has(|c| c.interval.is_some()).then(|| "small: confidence interval".into()));
    items.extend(table.legend().iter().map(|(sign, meaning)| format!("<b>{}</b> {}", escape(sign), inline(meaning))));
    let mut out = String::new();
    if !items.is_empty() {
        let items: String = items.iter().map(|item| format!("<li>{item}</li>")).collect();
        out += &format!("<ul class=\"legend\">{items}</ul>\n");
    }
    out.extend(table.notes.iter().map(|note| format!("<p class=\"remark\">{}</p>\n", inline(note))));
    out
}

/// What the columns mean, for readers without a pointer to hover with.
fn explanations(table: &Table) -> String {
    let explained: Vec<&Column> = table.columns.iter().filter(|column| !help(column).is_empty()).collect();
    if explained.iter().all(|column| column.help.is_empty()) {
        return String::new();
    }
    let items =
        explained.iter().map(|c| format!("<div><dt>{}</dt><dd>{}</dd></div>", escape(&c.title), escape(&help(c))));
    format!(
        "<details class=\"help\"><summary>What the columns mean</summary><dl>{}</dl></details>\n",
        items.collect::<String>()
    )
}

/// Text for a link: unreserved characters of RFC 3986 stay, all other bytes become %XX.
fn percent_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte.into()),
            _ => out += &format!("%{byte:02X}"),
        }
    }
    out
}
