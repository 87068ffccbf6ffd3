//! Models of look-alikes: from a person's interests and last pages to a score for every category.

use crate::trained::Trained;
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Scores people.
pub trait Scorer: Send + Sync {
    /// Ids of the categories that are scored.
    fn categories(&self) -> &[String];

    /// Whether it looks at a person's interests at all.
    fn reads_interests(&self) -> bool {
        true
    }

    /// Digest of the encoder whose vectors of titles it reads; `None` if it reads none.
    fn encoder(&self) -> Option<&str> {
        None
    }

    /// Writes a score from 0 to 1 for each category, from the numbers of the categories that the person is interested
    /// in, ascending, and the vectors of their last pages, oldest first; a page without title has an empty one. It must
    /// depend on nothing else, so that a job that is run again gives the same bytes.
    ///
    /// # Errors
    /// If the model cannot score such a person.
    fn score(&self, interests: &[u32], pages: &[&[f32]], scores: &mut [f32]) -> Result<()>;
}

/// A scorer, with its categories by id.
pub struct Model {
    scorer: Box<dyn Scorer>,
    numbers: HashMap<String, u32>,
}

impl Model {
    /// Reads a model: JSON whose `kind` is `popularity`, or what [`pack`](crate::trained::pack) made of a folder.
    ///
    /// # Errors
    /// If it is none, or says something impossible.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        if Trained::is_one(bytes) {
            return Ok(Self::new(Box::new(Trained::parse(bytes)?)));
        }
        #[derive(Deserialize)]
        struct Kind {
            kind: String,
        }
        let Kind { kind } = serde_json::from_slice(bytes).context("not a model: expected JSON with a field `kind`")?;
        match kind.as_str() {
            "popularity" => Ok(Self::new(Box::new(Popularity::parse(bytes)?))),
            other => bail!("a model of the kind `{other}`; known is `popularity`"),
        }
    }

    /// A model of one's own.
    pub fn new(scorer: Box<dyn Scorer>) -> Self {
        let numbers = (0..).zip(scorer.categories()).map(|(number, id)| (id.clone(), number)).collect();
        Self { scorer, numbers }
    }

    /// What scores.
    pub fn scorer(&self) -> &dyn Scorer {
        self.scorer.as_ref()
    }

    /// Ids of the categories that are scored.
    pub fn categories(&self) -> &[String] {
        self.scorer.categories()
    }

    /// The number of a category, if the model knows it.
    pub fn number(&self, id: &str) -> Option<u32> {
        self.numbers.get(id).copied()
    }
}

/// The popularity baseline: everybody gets each category's share of people who are interested in it.
#[derive(Debug, Deserialize, Serialize)]
pub struct Popularity {
    kind: String,
    categories: Vec<String>,
    shares: Vec<f32>,
}

impl Popularity {
    /// From how many of so many people are interested in each category.
    pub fn new(interested: &[(String, u64)], people: u64) -> Self {
        let share = |(_, count): &(String, u64)| *count as f32 / people.max(1) as f32;
        Self {
            kind: "popularity".to_owned(),
            categories: interested.iter().map(|(id, _)| id.clone()).collect(),
            shares: interested.iter().map(share).collect(),
        }
    }

    fn parse(bytes: &[u8]) -> Result<Self> {
        let model: Self = serde_json::from_slice(bytes).context("not a model of popularity")?;
        let (categories, shares) = (model.categories.len(), model.shares.len());
        ensure!(categories == shares, "{categories} categories, but {shares} shares");
        if let Some(at) = model.shares.iter().position(|share| !(0.0..=1.0).contains(share)) {
            bail!("the share of category `{}` is {}; expected 0 to 1", model.categories[at], model.shares[at]);
        }
        Ok(model)
    }
}

impl Scorer for Popularity {
    fn categories(&self) -> &[String] {
        &self.categories
    }

    fn reads_interests(&self) -> bool {
        false
    }

    fn score(&self, _interests: &[u32], _pages: &[&[f32]], scores: &mut [f32]) -> Result<()> {
        scores.copy_from_slice(&self.shares);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> String {
        Model::parse(text.as_bytes()).err().map_or_else(String::new, |error| format!("{error:#}"))
    }

    #[test]
    fn a_model_that_cannot_be_is_named() {
        assert!(parse("{}").contains("missing field `kind`"));
        assert!(parse(r#"{"kind": "oracle"}"#).contains("`oracle`"));
        assert!(parse(r#"{"kind": "popularity", "categories": ["1"], "shares": []}"#).contains("1 categories, but 0"));
        let wrong = parse(r#"{"kind": "popularity", "categories": ["1", "2"], "shares": [0.5, 1.5]}"#);
        assert!(wrong.contains("category `2` is 1.5"), "{wrong}");
        assert_eq!(parse(r#"{"kind": "popularity", "categories": ["1"], "shares": [0.5]}"#), "");
    }
}
