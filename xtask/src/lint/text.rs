//! What no file of the repository says, and how wide its code is.

/// Beyond this many lines a source file probably holds two ideas.
const LONG_FILE: usize = 600;

/// Columns of a comment at most; rustfmt sees to the code.
const WIDTH: usize = 120;

/// Where a forbidden text counts.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// Anywhere.
    Anywhere,
    /// Where no word or path goes on before it: an absolute path, a whole word.
    Start,
}

/// Forbidden texts and why. Each is written in two pieces, so that this file keeps the rule it states.
const FORBIDDEN: &[(&str, Place, &str)] = &[
    (concat!("/wo", "rk/"), Place::Start, "a path of one machine"),
    (concat!("/ro", "ot/"), Place::Start, "a path of one machine"),
    (concat!("todo", "!("), Place::Start, "unfinished code"),
    (concat!("unimpl", "emented!("), Place::Start, "unfinished code"),
    (concat!("FIX", "ME"), Place::Start, "unfinished work"),
    (concat!("TO", "DO"), Place::Start, "unfinished work"),
    (concat!("#[ign", "ore"), Place::Anywhere, "a test that does not run"),
];

/// The content, if it is text.
pub(crate) fn as_text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

/// One line for each forbidden text: file, line, what and why.
pub(crate) fn violations(name: &str, content: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in content.lines().enumerate() {
        for (text, place, why) in FORBIDDEN {
            if contains(line, text, *place) {
                found.push(format!("{name}:{}: `{text}`: {why}", number + 1));
            }
        }
        let width = line.chars().count();
        if name.ends_with(".rs") && width > WIDTH && line.trim_start().starts_with("//") {
            found.push(format!("{name}:{}: {width} columns, more than {WIDTH}", number + 1));
        }
    }
    found
}

fn contains(line: &str, text: &str, place: Place) -> bool {
    let goes_on = |c: char| c.is_alphanumeric() || "_-./}~".contains(c);
    line.match_indices(text)
        .any(|(at, _)| place == Place::Anywhere || !line[..at].chars().next_back().is_some_and(goes_on))
}

/// A word on a source file that has grown long.
pub(crate) fn length_warning(name: &str, content: &str) -> Option<String> {
    let lines = content.lines().count();
    let long = name.ends_with(".rs") && lines > LONG_FILE;
    long.then(|| format!("{name} has {lines} lines; over {LONG_FILE} a file often holds two ideas"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_texts_are_found_with_file_line_and_reason() {
        let content = format!("fn f() {{\n    {}\n}}\n", concat!("todo", "!()"));
        let expected = [format!("a.rs:2: `{}`: unfinished code", concat!("todo", "!("))];
        assert_eq!(violations("a.rs", &content), expected);
    }

    #[test]
    fn every_forbidden_text_is_found_at_the_start_of_a_line_and_after_a_space() {
        for (text, _, _) in FORBIDDEN {
            assert_eq!(violations("x", text).len(), 1, "{text}");
            assert_eq!(violations("x", &format!("see {text}")).len(), 1, "{text}");
        }
    }

    #[test]
    fn a_path_inside_a_path_and_a_word_inside_a_word_are_allowed() {
        for allowed in [concat!("docs/wo", "rk/plan.md"), concat!("~/wo", "rk/x"), concat!("my_todo", "!(x)")]
        {
            assert_eq!(violations("x", allowed), [""; 0], "{allowed}");
        }
    }

    #[test]
    fn wide_comments_are_found() {
        let wide = format!("// {}", "x".repeat(118));
        assert_eq!(violations("a.rs", &wide), ["a.rs:1: 121 columns, more than 120"]);
        assert_eq!(violations("a.rs", &format!("let url = \"{wide}\";")), [""; 0]);
        assert_eq!(violations("a.json", &wide), [""; 0]);
    }

    #[test]
    fn binary_files_are_not_read_as_text() {
        assert_eq!(as_text(b"\x89PNG\x0d\x0a"), None);
        assert_eq!(as_text(b"a\0b"), None);
        assert_eq!(as_text("Città".as_bytes()), Some("Città"));
    }

    #[test]
    fn only_long_source_files_are_warned_of() {
        let lines = |n: usize| "x\n".repeat(n);
        assert!(
            length_warning("a.rs", &lines(601)).is_some_and(|warning| warning.starts_with("a.rs has 601"))
        );
        assert_eq!(length_warning("a.rs", &lines(600)), None);
        assert_eq!(length_warning("Cargo.lock", &lines(6000)), None);
    }
}
