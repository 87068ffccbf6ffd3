//! Front coding: many strings with common prefixes in little memory, such as the names of features.

/// Strings, each stored as the length of the prefix it shares with the previous one and the rest. Every sixteenth is stored
/// whole, so that a look-up decodes at most sixteen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FrontCoded {
    bytes: Vec<u8>,
    /// Where each sixteenth string begins.
    blocks: Vec<u32>,
    len: usize,
}

const BLOCK: usize = 16;

impl FrontCoded {
    /// # Panics
    /// If they take 4 GiB or more.
    pub(crate) fn new<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let mut coded = Self::default();
        let mut before: &[u8] = &[];
        for text in texts {
            let text = text.as_bytes();
            if coded.len % BLOCK == 0 {
                let start =
                    u32::try_from(coded.bytes.len()).unwrap_or_else(|_| panic!("names of features hold at most 4 GiB"));
                coded.blocks.push(start);
                before = &[];
            }
            let shared = before.iter().zip(text).take_while(|(a, b)| a == b).count();
            put(&mut coded.bytes, shared);
            put(&mut coded.bytes, text.len() - shared);
            coded.bytes.extend_from_slice(&text[shared..]);
            coded.len += 1;
            before = text;
        }
        coded.bytes.shrink_to_fit();
        coded.blocks.shrink_to_fit();
        coded
    }

    /// # Panics
    /// If there is no such text.
    pub(crate) fn get(&self, index: usize) -> String {
        assert!(index < self.len, "string {index} of {}", self.len);
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

    /// Turns `text` from the previous string into the one at `at`, and advances.
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

/// The bytes are a string's: only whole strings were stored.
fn whole(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

/// LEB128: seven bits a byte, the lowest first.
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
    fn strings_round_trip() {
        let long = "x".repeat(300);
        let mut texts: Vec<String> = (0..100).map(|n| format!("director: Città {n}")).collect();
        texts.extend([String::new(), "è".to_owned(), "é".to_owned(), long.clone(), format!("{long}y")]);
        let coded = FrontCoded::new(texts.iter().map(String::as_str));
        assert_eq!(coded.iter().collect::<Vec<_>>(), texts);
        assert!((0..texts.len()).all(|index| coded.get(index) == texts[index]));
        let plain: usize = texts.iter().map(String::len).sum();
        assert!(coded.heap_bytes() < plain / 2, "{} of {plain}", coded.heap_bytes());
        assert_eq!(FrontCoded::new([].into_iter()).iter().count(), 0);
    }
}
