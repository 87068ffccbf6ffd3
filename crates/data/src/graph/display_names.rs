//! Readable names of predicates and objects.

/// The local name of an IRI: what follows the last `/`, `#` or, in prefixed form, `:`.
pub(super) fn local(address: &str) -> &str {
    let tail = |text: &'_ str, at: Option<usize>| at.map_or(0, |at| if at + 1 < text.len() { at + 1 } else { 0 });
    let trimmed = address.trim_end_matches(['/', '#']);
    let start = tail(trimmed, trimmed.rfind(['/', '#']));
    if start > 0 || trimmed.contains("//") {
        return &trimmed[start..];
    }
    &trimmed[tail(trimmed, trimmed.find(':'))..]
}

/// A predicate: `http://dbpedia.org/ontology/musicComposer` is `music composer`, `^director` is `director of`, and
/// `film.film.directed_by` is `directed by`.
pub(super) fn predicate(address: &str) -> String {
    if let Some(forward) = address.strip_prefix('^') {
        return format!("{} of", predicate(forward));
    }
    let name = local(address);
    let name = if name.contains(' ') { name } else { name.rsplit('.').next().unwrap_or(name) };
    let mut words = String::with_capacity(name.len() + 4);
    let mut before = ' ';
    for letter in decoded(name).chars() {
        if letter.is_uppercase() && (before.is_lowercase() || before.is_ascii_digit()) {
            words.push(' ');
        }
        if letter == '_' || letter == '-' {
            words.push(' ');
        } else {
            words.extend(letter.to_lowercase());
        }
        before = letter;
    }
    plain(&words)
}

/// A thing: `http://dbpedia.org/resource/Category:Films_shot_in_Rome` is `Films shot in Rome`.
pub(super) fn thing(address: &str) -> String {
    let is_address = address.contains("://");
    // Names of things may have slashes of their own.
    let resource = address.split_once("/resource/").map(|(_, name)| name);
    let name = if is_address { resource.unwrap_or_else(|| local(address)) } else { address };
    let name = name.strip_prefix("Category:").unwrap_or(name);
    if is_address { plain(&decoded(name).replace('_', " ")) } else { plain(name) }
}

/// Text without control characters and without blanks at its ends.
pub(super) fn plain(text: &str) -> String {
    let text: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    text.trim().to_owned()
}

/// Decodes percent-encoded UTF-8; anything else stays.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let code = (*first == b'%').then(|| after.get(..2)).flatten();
        let code = code.and_then(|two| std::str::from_utf8(two).ok()).and_then(|two| u8::from_str_radix(two, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iris_become_readable_names() {
        assert_eq!(predicate("http://dbpedia.org/ontology/musicComposer"), "music composer");
        assert_eq!(predicate("^http://dbpedia.org/ontology/starring"), "starring of");
        assert_eq!(predicate("http://www.w3.org/2004/02/skos/core#broader"), "broader");
        assert_eq!(predicate("dbo:associatedBand"), "associated band");
        assert_eq!(predicate("film.film.directed_by"), "directed by");
        assert_eq!(thing("http://dbpedia.org/resource/Category:Films_shot_in_Rome"), "Films shot in Rome");
        assert_eq!(thing("http://dbpedia.org/resource/%22Crocodile%22_Dundee"), "\"Crocodile\" Dundee");
        assert_eq!(thing("http://dbpedia.org/resource/AC/DC"), "AC/DC");
        assert_eq!(thing("m.04ctbw8"), "m.04ctbw8");
        assert_eq!(thing("100% %zz é"), "100% %zz é");
        assert_eq!((local("dbo:a"), local("x"), local("http://a/b/"), local("a:")), ("a", "x", "b", "a:"));
    }
}
