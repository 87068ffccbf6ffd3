//! Many strings in one allocation: the ids and titles of a data set.

/// A list of strings in one buffer: 4 bytes and the text for each, instead of 24 bytes and an allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    text: String,
    ends: Vec<u32>,
}

impl Names {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends one string and returns its index.
    ///
    /// # Panics
    /// If all strings together would pass 4 GiB.
    pub fn push(&mut self, name: &str) -> usize {
        self.text.push_str(name);
        let end = u32::try_from(self.text.len()).unwrap_or_else(|_| panic!("names hold at most 4 GiB of text"));
        self.ends.push(end);
        self.ends.len() - 1
    }

    /// The string at `index`, or `None` past the end.
    pub fn get(&self, index: usize) -> Option<&str> {
        let end = *self.ends.get(index)? as usize;
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        Some(&self.text[start..end])
    }

    /// How many strings there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All strings in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> + '_ {
        (0..self.len()).map(|index| &self[index])
    }

    /// The index of `name` by linear search; not for loops.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.iter().position(|candidate| candidate == name)
    }

    /// The strings at `indices`, in that order.
    pub fn select(&self, indices: &[u32]) -> Names {
        indices.iter().map(|&index| &self[index as usize]).collect()
    }

    /// Bytes held on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.text.capacity() + self.ends.capacity() * size_of::<u32>()
    }
}

impl std::ops::Index<usize> for Names {
    type Output = str;

    fn index(&self, index: usize) -> &str {
        match self.get(index) {
            Some(name) => name,
            None => panic!("name {index} of {}", self.len()),
        }
    }
}

impl<S: AsRef<str>> FromIterator<S> for Names {
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> Self {
        let mut all = Names::new();
        for name in names {
            all.push(name.as_ref());
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_empty_and_multibyte_strings() {
        let names: Names = ["", "Città", "", "x"].into_iter().collect();
        assert_eq!(names.iter().collect::<Vec<_>>(), ["", "Città", "", "x"]);
        assert_eq!(names.position("x"), Some(3));
        assert_eq!(names.get(4), None);
        assert_eq!(names.select(&[3, 1]).iter().collect::<Vec<_>>(), ["x", "Città"]);
    }
}
