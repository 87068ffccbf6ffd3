//! The question that a measurement asks, and how a device answers it.

use super::{AudienceSizeConfig, MOST_CATEGORIES, MOST_CELLS};
use crate::choices;
use sottovoce_protocol::{ModelSpec, Settings};
use std::fmt::Write;

choices! {
    /// How several categories are combined.
    #[derive(Default)]
    pub enum Match {
        /// One of them is enough: the best score decides.
        #[default]
        Any => "any",
        /// All of them are needed: the worst score decides.
        All => "all",
    }
}

/// A question about people: which categories, and from which score on.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Rows of the categories in the catalog, ascending.
    pub categories: Vec<u32>,
    /// How they are combined.
    pub matching: Match,
    /// Where cells begin, ascending; below the first nobody is counted.
    pub thresholds: Vec<f32>,
}

/// Why there is no such question.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum QuestionError {
    /// The categories.
    #[error("categories are {0:?}, expected 1 to {MOST_CATEGORIES} rows of the catalog, ascending")]
    Categories(String),
    /// The thresholds.
    #[error("thresholds are {0:?}, expected 1 to {MOST_CELLS} scores above 0 and up to 1, ascending")]
    Thresholds(String),
    /// The scoring model.
    #[error("scored_by is {0:?}, expected a model's name and settings as KEY=VALUE")]
    Model(String),
}

fn list<T: std::str::FromStr + PartialOrd>(text: &str, most: usize) -> Option<Vec<T>> {
    let all = text.split(',').map(|part| part.parse().ok()).collect::<Option<Vec<T>>>()?;
    (all.len() <= most && all.is_sorted_by(|one, next| one < next)).then_some(all)
}

fn joined<T: ToString>(all: &[T]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

impl Question {
    /// The question of a round's settings.
    ///
    /// # Errors
    /// Names what is wrong.
    pub fn read(config: &AudienceSizeConfig) -> Result<Self, QuestionError> {
        let AudienceSizeConfig { categories, matching, thresholds, .. } = config;
        let rows = list(categories, MOST_CATEGORIES).ok_or_else(|| QuestionError::Categories(categories.clone()))?;
        let is_score = |scores: &Vec<f32>| scores.iter().all(|&score| score > 0.0 && score <= 1.0);
        let scores = list(thresholds, MOST_CELLS).filter(is_score);
        let scores = scores.ok_or_else(|| QuestionError::Thresholds(thresholds.clone()))?;
        Ok(Self { categories: rows, matching: *matching, thresholds: scores })
    }

    /// The settings of a round that asks it; `scored_by` is the model whose scores decide.
    pub fn settings(&self, scored_by: &ModelSpec) -> AudienceSizeConfig {
        let mut model = scored_by.name.clone();
        for (key, value) in &scored_by.settings {
            let _ = write!(model, " {key}={value}");
        }
        AudienceSizeConfig {
            categories: joined(&self.categories),
            matching: self.matching,
            thresholds: joined(&self.thresholds),
            scored_by: model,
            ..AudienceSizeConfig::default()
        }
    }

    /// The score that decides: of a category that the person has it is 1, of one that is left out 0.
    pub fn score(&self, of: impl Fn(u32) -> f32) -> f32 {
        let scores = self.categories.iter().map(|&category| of(category));
        match self.matching {
            Match::Any => scores.fold(0.0, f32::max),
            Match::All => scores.fold(1.0, f32::min),
        }
    }

    /// The cell that a score falls into: the one with the highest threshold that it reaches.
    pub fn cell(&self, score: f32) -> Option<u32> {
        let reached = self.thresholds.iter().take_while(|&&threshold| score >= threshold).count();
        reached.checked_sub(1).map(|cell| cell as u32)
    }
}

impl AudienceSizeConfig {
    /// The model whose scores decide.
    ///
    /// # Errors
    /// If it is not written as a model and its settings.
    pub fn scoring_model(&self) -> Result<ModelSpec, QuestionError> {
        let wrong = || QuestionError::Model(self.scored_by.clone());
        let mut words = self.scored_by.split(' ');
        let name = words.next().filter(|name| !name.is_empty()).ok_or_else(wrong)?.to_owned();
        let pairs = words.map(|word| word.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned())));
        Ok(ModelSpec { name, settings: pairs.collect::<Option<Settings>>().ok_or_else(wrong)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(matching: Match) -> Question {
        Question { categories: vec![1, 3], matching, thresholds: vec![0.25, 0.5, 0.75] }
    }

    #[test]
    fn settings_round_trip() {
        let settings = Settings::from([("code".to_owned(), "40".to_owned())]);
        let model = ModelSpec { name: "lookalike".to_owned(), settings };
        let config = question(Match::All).settings(&model);
        assert_eq!(Question::read(&config), Ok(question(Match::All)));
        assert_eq!(config.scoring_model(), Ok(model));
    }

    #[test]
    fn any_takes_the_best_score_and_all_the_worst() {
        let scores = |category: u32| [0.0, 0.3, 0.9, 0.6][category as usize];
        assert_eq!((question(Match::Any).score(scores), question(Match::All).score(scores)), (0.6, 0.3));
        let cells = [0.1, 0.25, 0.6, 1.0].map(|score| question(Match::Any).cell(score));
        assert_eq!(cells, [None, Some(0), Some(1), Some(2)]);
    }

    #[test]
    fn names_what_is_wrong() {
        let right = question(Match::Any).settings(&ModelSpec { name: "m".to_owned(), ..ModelSpec::default() });
        for wrong in ["", "3,1", "1,1", "-1", "a"] {
            let config = AudienceSizeConfig { categories: wrong.to_owned(), ..right.clone() };
            assert_eq!(Question::read(&config), Err(QuestionError::Categories(wrong.to_owned())));
        }
        for wrong in ["", "0", "0.5,0.4", "1.1", "NaN", "0.5,NaN", &joined(&(1..=65).collect::<Vec<_>>())] {
            let config = AudienceSizeConfig { thresholds: wrong.to_owned(), ..right.clone() };
            assert_eq!(Question::read(&config), Err(QuestionError::Thresholds(wrong.to_owned())));
        }
        for wrong in ["", "m code"] {
            let config = AudienceSizeConfig { scored_by: wrong.to_owned(), ..right.clone() };
            assert!(config.scoring_model().is_err(), "{wrong}");
        }
    }
}
