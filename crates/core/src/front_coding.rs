//! Many texts that begin alike, in little room: the words of features.

/// Texts, each written as how much it shares with the one before it and what follows. Every sixteenth is written whole,
/// so that any of them is found by reading at most sixteen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FrontCoded {
    bytes: Vec<u8>,
    /// Where each sixteenth text begins.
    blocks: Vec<u32>,
    len: usize,
}

const BLOCK: usize = 16;

impl FrontCoded {
    /// # Panics
    /// If they take 4 GiB.
    pub(crate) fn new<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let mut words = Self::default();
        let mut before: &[u8] = &[];
        for text in texts {
            let text = text.as_bytes();
            if words.len % BLOCK == 0 {
                let start =
                    u32::try_from(words.bytes.len()).unwrap_or_else(|_| panic!("words hold at most 4 GiB"));
                words.blocks.push(start);
                before = &[];
            }
            let shared = before.iter().zip(text).take_while(|(a, b)| a == b).count();
            put(&mut words.bytes, shared);
            put(&mut words.bytes, text.len() - shared);
            words.bytes.extend_from_slice(&text[shared..]);
            words.len += 1;
            before = text;
        }
        words.bytes.shrink_to_fit();
        words.blocks.shrink_to_fit();
        words
    }

    /// # Panics
    /// If there is no such text.
    pub(crate) fn get(&self, index: usize) -> String {
        assert!(index < self.len, "word {index} of {}", self.len);
        let mut at = self.blocks[index / BLOCK] as usize;
        let mut text = Vec::new();
        for _ in 0..=index % BLOCK {
            self.next(&mut at, &mut text);
        }
        whole(&text)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = String> + '_ {
        let (mut at, mut text) = (0, Vec::new());
        (0..self.len).map(move |_| {
            self.next(&mut at, &mut text);
            whole(&text)
        })
    }

    /// Makes `text` the text at `at`, from the one before it, and moves on.
    fn next(&self, at: &mut usize, text: &mut Vec<u8>) {
        let (shared, more) = (take(&self.bytes, at), take(&self.bytes, at));
        text.truncate(shared);
        text.extend_from_slice(&self.bytes[*at..*at + more]);
        *at += more;
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.bytes.capacity() + self.blocks.capacity() * size_of::<u32>()
    }
}

/// The bytes of a text that was one before it was written.
fn whole(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

/// Seven bits a byte, the lowest first.
fn put(bytes: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take(bytes: &[u8], at: &mut usize) -> usize {
    let (mut number, mut shift) = (0, 0);
    loop {
        let byte = bytes[*at];
        *at += 1;
        number |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return number;
        }
        shift += 7;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back() {
        let long = "x".repeat(300);
        let mut texts: Vec<String> = (0..100).map(|n| format!("director: Città {n}")).collect();
        texts.extend([String::new(), "è".to_owned(), "é".to_owned(), long.clone(), format!("{long}y")]);
        let words = FrontCoded::new(texts.iter().map(String::as_str));
        assert_eq!(words.iter().collect::<Vec<_>>(), texts);
        assert!((0..texts.len()).all(|index| words.get(index) == texts[index]));
        let plain: usize = texts.iter().map(String::len).sum();
        assert!(words.heap_bytes() < plain / 2, "{} of {plain}", words.heap_bytes());
        assert_eq!(FrontCoded::new([].into_iter()).iter().count(), 0);
    }
}
