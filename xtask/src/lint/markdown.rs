//! Markdown that renders: links lead somewhere, tables are tables, lines are short.

use std::collections::{BTreeMap, BTreeSet};

/// Columns of a line at most, tables excepted: a row cannot be broken.
const WIDTH: usize = 120;

/// One line for each violation in these pages; `files` are all files of the repository.
pub(crate) fn violations(pages: &[(String, String)], files: &[String]) -> Vec<String> {
    let anchors: BTreeMap<&str, BTreeSet<String>> =
        pages.iter().map(|(name, text)| (name.as_str(), anchors(text))).collect();
    let mut known: BTreeSet<&str> = files.iter().map(String::as_str).collect();
    for file in files {
        // Folders can be linked to as well.
        known.extend(file.match_indices('/').map(|(at, _)| &file[..at]));
    }
    let mut found = Vec::new();
    for (name, text) in pages {
        let lines = lines(text);
        let mut say = |number: usize, what: String| found.push(format!("{name}:{}: {what}", number + 1));
        tables(&lines, &mut say);
        for (number, line) in lines.iter().enumerate() {
            let width = line.text.chars().count();
            if width > WIDTH && !line.is_row() {
                say(number, format!("{width} columns, more than {WIDTH}"));
            }
            let targets = if line.code { Vec::new() } else { targets(line.text) };
            for target in targets {
                if let Some(wrong) = dead(name, target, &known, &anchors) {
                    say(number, format!("`{target}`: {wrong}"));
                }
            }
        }
    }
    found
}

/// A line, and whether it is within a block of code.
struct Line<'a> {
    text: &'a str,
    code: bool,
}

impl Line<'_> {
    fn is_row(&self) -> bool {
        !self.code && self.text.trim_start().starts_with('|')
    }
}

fn lines(text: &str) -> Vec<Line<'_>> {
    let mut fence = None;
    text.lines()
        .map(|text| {
            let marks = ["```", "~~~"].into_iter().find(|marks| text.trim_start().starts_with(marks));
            let code = fence.is_some() || marks.is_some();
            match (fence, marks) {
                (None, Some(_)) => fence = marks,
                (Some(open), Some(close)) if open == close => fence = None,
                _ => {}
            }
            Line { text, code }
        })
        .collect()
}

/// A header, a line of dashes, and as many cells in every row. A blank line inside a table makes a table of its second
/// part that has no header.
fn tables(lines: &[Line<'_>], say: &mut impl FnMut(usize, String)) {
    let mut start = 0;
    while start < lines.len() {
        let rows = lines[start..].iter().take_while(|line| line.is_row()).count();
        if rows == 0 {
            start += 1;
            continue;
        }
        let columns = cells(lines[start].text).len();
        if rows < 2 || !cells(lines[start + 1].text).iter().all(|cell| is_dashes(cell)) {
            let why = "a table needs a header and a line of dashes; is there a blank line inside it?";
            say(start, why.to_owned());
        }
        for (row, line) in lines[start..start + rows].iter().enumerate() {
            let found = cells(line.text).len();
            if found != columns {
                say(start + row, format!("a row of {found} cells in a table of {columns} columns"));
            }
        }
        start += rows;
    }
}

fn is_dashes(cell: &str) -> bool {
    let cell = cell.trim();
    cell.contains('-') && cell.trim_start_matches(':').trim_end_matches(':').chars().all(|c| c == '-')
}

/// The cells of a row. A bar with a backslash is text, also within code.
fn cells(row: &str) -> Vec<&str> {
    let row = row.trim();
    let bars =
        row.match_indices('|').map(|(at, _)| at).filter(|&at| at == 0 || row.as_bytes()[at - 1] != b'\\');
    let mut bounds: Vec<usize> = bars.collect();
    if bounds.last() != Some(&(row.len() - 1)) {
        bounds.push(row.len());
    }
    bounds.windows(2).map(|pair| &row[pair[0] + 1..pair[1]]).collect()
}

/// Where the links and pictures of a line lead: `[..](target)` and `[..]: target`.
fn targets(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let code = code_spans(line);
    for (at, _) in line.match_indices("](") {
        if !code.iter().any(|span| span.contains(&at)) {
            let rest = &line[at + 2..];
            let inside = rest.split(')').next().unwrap_or(rest);
            found.extend(inside.split_whitespace().next());
        }
    }
    if let Some((label, target)) = line.split_once("]: ")
        && label.starts_with('[')
    {
        found.extend(target.split_whitespace().next());
    }
    found
}

/// Where a line has inline code.
fn code_spans(line: &str) -> Vec<std::ops::Range<usize>> {
    let ticks: Vec<usize> = line.match_indices('`').map(|(at, _)| at).collect();
    ticks.chunks_exact(2).map(|pair| pair[0]..pair[1]).collect()
}

/// Why a link of this page leads nowhere.
fn dead(
    page: &str,
    target: &str,
    files: &BTreeSet<&str>,
    anchors: &BTreeMap<&str, BTreeSet<String>>,
) -> Option<&'static str> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let file = if path.is_empty() { page.to_owned() } else { resolved(page, path) };
    if !file.is_empty() && !files.contains(file.as_str()) {
        return Some("there is no such file");
    }
    let known = anchors.get(file.as_str())?;
    anchor.filter(|anchor| !known.contains(*anchor)).map(|_| "the page has no such heading")
}

/// A path from the root for one from a page.
fn resolved(page: &str, path: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.trim_end_matches('/').split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The anchors of a page: of its headings as GitHub makes them, and those written out.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for line in lines(text).iter().filter(|line| !line.code) {
        for (_, rest) in
            line.text.match_indices("id=\"").map(|(at, found)| (at, &line.text[at + found.len()..]))
        {
            all.extend(rest.split('"').next().map(str::to_owned));
        }
        let heading = line.text.trim_start_matches('#');
        if heading.len() == line.text.len() || !heading.starts_with(' ') {
            continue;
        }
        let slug = slug(heading.trim());
        let repeated = (1..).map(|n| format!("{slug}-{n}"));
        let free = std::iter::once(slug.clone()).chain(repeated).find(|slug| !all.contains(slug));
        all.extend(free);
    }
    all
}

fn slug(heading: &str) -> String {
    let mut text = String::new();
    // Of a link in a heading only its text counts.
    for piece in heading.split("](") {
        let rest = if text.is_empty() && !heading.starts_with("](") { Some(piece) } else { None };
        text.push_str(rest.unwrap_or_else(|| piece.split_once(')').map_or("", |(_, rest)| rest)));
    }
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let files = ["docs/a.md", "docs/sub/b.md", "src/lib.rs"].map(str::to_owned);
        let other = ("docs/sub/b.md".to_owned(), "# A *long* title, here\n# Twice\n# Twice\n".to_owned());
        violations(&[("docs/a.md".to_owned(), text.to_owned()), other], &files)
    }

    #[test]
    fn links_to_files_folders_headings_and_elsewhere_are_taken() {
        for link in [
            "sub/b.md",
            "./sub/b.md#twice-1",
            "sub/b.md#a-long-title-here",
            "../src/lib.rs",
            "../src",
            "sub/",
            "https://x.org/y",
        ] {
            assert_eq!(found(&format!("See [this]({link}) and\n[that]: {link}\n")), [""; 0], "{link}");
        }
        assert_eq!(found("# Top of it\n[up](#top-of-it)\n"), [""; 0]);
    }

    #[test]
    fn dead_links_are_named() {
        assert_eq!(found("x\n[a](gone.md)\n"), ["docs/a.md:2: `gone.md`: there is no such file"]);
        assert_eq!(
            found("![a](sub/b.md#thrice)"),
            ["docs/a.md:1: `sub/b.md#thrice`: the page has no such heading"]
        );
        assert_eq!(found("[a](#nowhere)").len(), 1);
    }

    #[test]
    fn code_has_no_links_and_no_tables() {
        assert_eq!(found("`a[0](x)` and\n```\n[a](gone.md)\n| one row\n```\n"), [""; 0]);
    }

    #[test]
    fn a_table_has_a_header_and_as_many_cells_in_every_row() {
        assert_eq!(found("| a | b |\n|---|:-:|\n| 1 | `x \\| y` |\n"), [""; 0]);
        assert_eq!(
            found("| a | b |\n|---|---|\n| 1 |\n"),
            ["docs/a.md:3: a row of 1 cells in a table of 2 columns"]
        );
        let broken = found("| a | b |\n|---|---|\n\n| 1 | 2 |\n| 3 | 4 |\n");
        assert!(
            broken.len() == 1 && broken[0].starts_with("docs/a.md:4: a table needs a header"),
            "{broken:?}"
        );
    }

    #[test]
    fn long_lines_are_for_tables_only() {
        let long = "x ".repeat(61);
        assert_eq!(found(&long), ["docs/a.md:1: 122 columns, more than 120"]);
        assert_eq!(found(&format!("| a |\n|---|\n| {long} |\n")), [""; 0]);
    }
}
