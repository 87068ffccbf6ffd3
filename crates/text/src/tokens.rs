//! Words of a text in any script.

use unicode_normalization::UnicodeNormalization;
use unicode_segmentation::UnicodeSegmentation;

/// A piece of normalised text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    /// A word, a number or an emoji.
    Word(&'a str),
    /// Characters of a script that writes no spaces between words.
    Unspaced(&'a str),
}

/// Compatibility composition (NFKC) in lower case, so that writings of one word that differ in bytes only become equal.
/// Final sigma becomes sigma and typographic apostrophes become plain ones. Soft hyphens, variation selectors, byte
/// order marks and the Arabic stretching mark are dropped.
///
/// ```
/// assert_eq!(sottovoce_text::normalise("ＣＡＦÉ"), sottovoce_text::normalise("cafe\u{301}"));
/// ```
pub fn normalise(text: &str) -> String {
    // Lower-casing may decompose (a dotted capital I), hence the second composition.
    let folded = text.nfkc().flat_map(char::to_lowercase).filter_map(|c| match c {
        '\u{AD}' | '\u{640}' | '\u{FE0E}' | '\u{FE0F}' | '\u{FEFF}' => None,
        'ς' => Some('σ'),
        '\u{2019}' => Some('\''),
        c => Some(c),
    });
    folded.nfc().collect()
}

/// The words of a text, [normalised](normalise): what [`Word2Vec`](crate::Word2Vec) trains on when sentences are titles.
///
/// Words end where Unicode says so (UAX 29); punctuation is dropped, emoji are words. Chinese, Japanese, Thai, Lao,
/// Khmer and Burmese write no spaces between words: their text gives all pairs of neighbouring characters instead.
///
/// ```
/// assert_eq!(sottovoce_text::words("Don't panic, Москва!"), ["don't", "panic", "москва"]);
/// assert_eq!(sottovoce_text::words("東京都 2026"), ["東京", "京都", "2026"]);
/// ```
pub fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for_each_token(&normalise(text), |token| match token {
        Token::Word(word) => words.push(word.to_owned()),
        Token::Unspaced(run) => {
            let starts: Vec<usize> = run.char_indices().map(|(start, _)| start).chain([run.len()]).collect();
            if starts.len() == 2 {
                words.push(run.to_owned());
            }
            words.extend(starts.windows(3).map(|three| run[three[0]..three[2]].to_owned()));
        }
    });
    words
}

/// Calls back for each token of a text that is [normalised](normalise) already.
pub(crate) fn for_each_token<'a>(text: &'a str, mut take: impl FnMut(Token<'a>)) {
    let mut run = 0..0;
    for (start, piece) in text.split_word_bound_indices() {
        let unspaced = piece.starts_with(is_unspaced);
        if unspaced && run.end == start {
            run.end += piece.len();
            continue;
        }
        if !run.is_empty() {
            take(Token::Unspaced(&text[run.clone()]));
        }
        run = if unspaced { start..start + piece.len() } else { 0..0 };
        if !unspaced && piece.contains(|c: char| c.is_alphanumeric() || is_emoji(c)) {
            take(Token::Word(piece));
        }
    }
    if !run.is_empty() {
        take(Token::Unspaced(&text[run]));
    }
}

/// Letters of scripts without spaces between words.
fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{E00}'..='\u{EFF}' // Thai and Lao
        | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}' // Burmese and Khmer
        | '\u{3005}'..='\u{3007}' | '\u{3041}'..='\u{312F}' | '\u{31F0}'..='\u{31FF}' // kana and bopomofo
        | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}' // Han
    ) && c.is_alphabetic()
}

fn is_emoji(c: char) -> bool {
    matches!(c, '\u{1F000}'..='\u{1FAFF}' | '\u{2600}'..='\u{27BF}' | '\u{2B00}'..='\u{2BFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<String> {
        let mut all = Vec::new();
        for_each_token(text, |token| {
            all.push(match token {
                Token::Word(word) => format!("w:{word}"),
                Token::Unspaced(run) => format!("u:{run}"),
            });
        });
        all
    }

    #[test]
    fn scripts_without_spaces_are_one_run() {
        assert_eq!(tokens("abc東京タワーへ行く,京 สวัสดีครับ"), ["w:abc", "u:東京タワーへ行く", "u:京", "u:สวัสดีครับ"]);
        assert_eq!(tokens("東京abc"), ["u:東京", "w:abc"]);
    }

    #[test]
    fn words_of_many_scripts() {
        for (text, expected) in [
            ("", &[][..]),
            (" \t\n—…!?", &[]),
            ("ΟΔΟΣ οδός", &["οδοσ", "οδόσ"]),
            ("ПРИВЕТ, мир", &["привет", "мир"]),
            ("السَّلام عليكم", &["السَّلام", "عليكم"]),
            ("कितना हिन्दी", &["कितना", "हिन्दी"]),
            ("한국어 뉴스", &["한국어", "뉴스"]),
            ("Win 🏆❤️ 👩‍🚀!", &["win", "🏆", "❤", "👩‍🚀"]),
            ("ﬁne Ⅳ ½", &["fine", "iv", "1\u{2044}2"]),
            ("京", &["京"]),
            ("i’ll co\u{AD}operate", &["i'll", "cooperate"]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn normalising_twice_changes_nothing() {
        for text in ["İSTANBUL", "ΣΣ", "e\u{301}\u{323}", "Å\u{FB03}", "ﷺ", "\u{1F1E9}\u{1F1EA}"] {
            assert_eq!(normalise(&normalise(text)), normalise(text), "{text}");
        }
    }
}
