//! Words of our own for which the field has a better one.

/// Words that do not come back, alone or as part of a name, and what to say instead.
const WORDS: &[(&str, &str)] = &[
    (concat!("cle", "rk"), "commit queue"),
    (concat!("erra", "nd"), "request"),
    (concat!("erra", "nds"), "requests"),
    (concat!("les", "son"), "training statistics"),
    (concat!("guar", "dian"), "privacy engine"),
    (concat!("school", "ing"), "training configuration"),
    (concat!("jud", "ge"), "evaluate"),
    (concat!("jud", "ged"), "evaluated"),
    (concat!("jud", "ging"), "evaluating"),
    (concat!("jud", "ges"), "evaluates"),
];

/// Names, whole or as the end of longer ones, and what to say instead.
const NAMES: &[(&str, &str)] = &[
    (concat!("Device", "Part"), "ClientModel"),
    (concat!("Shared", "Part"), "ServerModel"),
    (concat!("_pu", "ll"), "_regularisation"),
    (concat!("settle_co", "vers"), "decoys"),
];

/// Records of what was said then.
const RECORDS: &[&str] = &["CHANGELOG.md", "docs/decisions/"];

/// One line for each word. Strings in the code may have them: old names of settings stay accepted.
pub(crate) fn violations(name: &str, content: &str) -> Vec<String> {
    let is_code = name.ends_with(".rs");
    if !(is_code || name.ends_with(".md")) || RECORDS.iter().any(|record| name.starts_with(record)) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (number, line) in content.lines().enumerate() {
        let line = if is_code { without_strings(line) } else { line.to_owned() };
        let mut say = |word: &str, better: &str| {
            found.push(format!("{name}:{}: `{word}`: say {better}", number + 1));
        };
        for whole in line.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
        {
            for part in parts(whole) {
                if let Some((word, better)) = WORDS.iter().find(|(word, _)| *word == part) {
                    say(word, better);
                }
            }
            if let Some((name, better)) = NAMES.iter().find(|(name, _)| whole.ends_with(name)) {
                say(name, better);
            }
        }
    }
    found
}

/// A line of code without what is in its string literals.
fn without_strings(line: &str) -> String {
    let (mut kept, mut inside, mut escaped) = (String::new(), false, false);
    for c in line.chars() {
        match (inside, c) {
            (_, '"') if !escaped => inside = !inside,
            (false, c) => kept.push(c),
            (true, _) => {}
        }
        escaped = inside && c == '\\' && !escaped;
    }
    kept
}

/// The words of a name, in lower case: `TopList`, `top_list` and `TOP_LIST` have the same.
fn parts(name: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut before = '_';
    for c in name.chars() {
        if c == '_' || (c.is_uppercase() && before.is_lowercase()) {
            all.push(String::new());
        }
        if let Some(last) = all.last_mut().filter(|_| c != '_') {
            last.extend(c.to_lowercase());
        }
        before = c;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_alone_and_in_names() {
        for line in [
            concat!("struct Cle", "rkThread;"),
            concat!("let jud", "ged_lists = 1;"),
            concat!("// the cle", "rk writes"),
            concat!("user_pu", "ll: f32,"),
        ] {
            assert_eq!(violations("a.rs", line).len(), 1, "{line}");
        }
        let expected = concat!("a.md:1: `cle", "rk`: say commit queue");
        assert_eq!(violations("a.md", concat!("The cle", "rk.")), [expected]);
    }

    #[test]
    fn other_words_strings_and_records_are_free() {
        assert_eq!(
            violations("a.rs", concat!("alias(\"user_pu", "ll\"); let misjud", "gement = pull;")),
            [""; 0]
        );
        assert_eq!(violations("CHANGELOG.md", concat!("The cle", "rk.")), [""; 0]);
        assert_eq!(violations("a.json", concat!("The cle", "rk.")), [""; 0]);
    }
}
