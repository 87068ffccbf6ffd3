//! Escaping, and the two marks that prose may use: `**strong**` and `` `code` ``.

/// Text made safe for HTML and XML, in content and in quoted attributes.
///
/// Characters that XML forbids become U+FFFD, so that a plot stays well-formed whatever an item is called.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(c),
            '\u{FFFE}' | '\u{FFFF}' => out.push('\u{FFFD}'),
            c if c < ' ' => out.push('\u{FFFD}'),
            c => out.push(c),
        }
    }
    out
}

/// What `show` makes of a text; nothing of an empty one.
pub(super) fn unless_empty(text: &str, show: impl FnOnce(&str) -> String) -> String {
    if text.is_empty() { String::new() } else { show(text) }
}

/// Prose as HTML: everything escaped, then `**` and `` ` `` in pairs become `<strong>` and `<code>`.
pub(super) fn inline(text: &str) -> String {
    paired(&escape(text), "`", "code", |text| paired(text, "**", "strong", str::to_owned))
}

/// A text in which marks in pairs become an element, and `outside` makes the rest.
fn paired(text: &str, mark: &str, element: &str, outside: impl Fn(&str) -> String) -> String {
    let pieces: Vec<&str> = text.split(mark).collect();
    let piece = |(at, piece): (usize, &&str)| match (at % 2 == 1, at + 1 < pieces.len()) {
        (true, true) => format!("<{element}>{piece}</{element}>"),
        (true, false) => mark.to_owned() + &outside(piece),
        (false, _) => outside(piece),
    };
    pieces.iter().enumerate().map(piece).collect()
}

/// Prose without its marks, for places that hold plain text only.
pub(super) fn plain(text: &str) -> String {
    text.replace("**", "").replace('`', "")
}

/// A name for files and anchors: lower-case letters, digits and single hyphens.
pub(super) fn slug(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars().flat_map(char::to_lowercase) {
        if c.is_ascii_alphanumeric() {
            out.push(c);
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
        if out.len() >= 60 {
            break;
        }
    }
    let out = out.trim_end_matches('-');
    if out.is_empty() { "untitled".into() } else { out.into() }
}

/// Slugs of several titles, made distinct by a number where two are alike.
pub(super) fn distinct_slugs<'a>(titles: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut taken: Vec<String> = Vec::new();
    for title in titles {
        let base = slug(title);
        let mut name = base.clone();
        let mut number = 2;
        while taken.contains(&name) {
            name = format!("{base}-{number}");
            number += 1;
        }
        taken.push(name);
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpaired_markup_stays_text() {
        assert_eq!(inline("**a** < `b**c`"), "<strong>a</strong> &lt; <code>b**c</code>");
        assert_eq!(inline("2 ** 3 and a ` alone"), "2 ** 3 and a ` alone");
        assert_eq!(inline("**<b>**"), "<strong>&lt;b&gt;</strong>");
    }

    #[test]
    fn slugs_are_ascii_and_distinct() {
        assert_eq!(slug("  Accuracy @10 – ML-1M!  "), "accuracy-10-ml-1m");
        assert_eq!(slug("日本"), "untitled");
        assert_eq!(distinct_slugs(["A b", "a-b", "a b 2", "a B"]), ["a-b", "a-b-2", "a-b-2-2", "a-b-3"]);
    }
}
