//! A trained network that scores people who were not in training, many of them in a row.

use super::central::MODEL as CENTRAL;
use super::network::{Network, PAGES, Shape};
use super::server::{Server, flattened};
use super::{Lookalike, LookalikeConfig, NetworkConfig};
use crate::central::layout_tensors::read_tensors;
use crate::federated::{FederatedModel, ServerModel};
use crate::settings::{Config, Settings, Value};
use crate::{ModelError, Tensor};
use sottovoce_neural::{Arena, NeuralError};
use sottovoce_protocol::Parameters;

/// A trained network, whether it was trained by a federation or in one place.
#[derive(Clone, Debug)]
pub struct Predictor {
    network: Network,
    parameters: Vec<f32>,
}

/// Working memory of a [`Predictor`].
pub struct PredictorScratch {
    arena: Arena<f32>,
    pages: Vec<f32>,
}

#[allow(clippy::needless_pass_by_value, reason = "a function for map_err")]
fn failed(error: NeuralError) -> ModelError {
    ModelError::Restore(format!("look-alike: {error}"))
}

impl Predictor {
    /// From what a model of this name stores: its settings and tensors, for so many categories.
    ///
    /// # Errors
    /// If it is no look-alike model, a setting is wrong, or the tensors are not those of its network.
    pub fn restore<'a>(
        model: &str,
        settings: impl IntoIterator<Item = (&'a str, Value)>,
        tensors: &[Tensor],
        categories: usize,
    ) -> Result<Self, ModelError> {
        let (name, federated) = (CENTRAL.info.name, Lookalike::INFO.name);
        let (is_central, schema) = match model {
            _ if model == name => (true, (CENTRAL.schema)()),
            _ if model == federated => (false, LookalikeConfig::default().schema()),
            _ => {
                let error = format!("`{model}` is no look-alike model; those are `{federated}` and `{name}`");
                return Err(ModelError::Restore(error));
            }
        };
        // Settings of the federation say nothing about the network.
        let known = |key: &str| schema.iter().any(|setting| setting.key == key);
        let settings = Settings::check(model, &schema, settings.into_iter().filter(|(key, _)| known(key)))?;
        let server = Server { shape: NetworkConfig::read(&settings).shape() };
        let network =
            server.network(categories).ok_or_else(|| ModelError::Restore("a model without categories".to_owned()))?;
        let parameters = match is_central {
            true => {
                let mut parameters = network.layout().zeros::<f32>();
                read_tensors(network.layout(), tensors, &mut parameters)?;
                parameters
            }
            false => {
                let layout = server.layout(categories).map_err(|error| ModelError::Restore(error.to_string()))?;
                let mut shared = Parameters::zeros(&layout);
                server.tensors().iter().try_for_each(|slice| slice.restore(tensors, &mut shared))?;
                flattened(&network, &shared)
            }
        };
        // A network that cannot be run is found here, not by those who score with it.
        let predictor = Self { network, parameters };
        predictor.score(&[], &[], &mut predictor.scratch()?, &mut vec![0.0; categories])?;
        Ok(predictor)
    }

    /// What the network is like.
    pub fn shape(&self) -> &Shape {
        self.network.shape()
    }

    /// Memory for one person at a time.
    ///
    /// # Errors
    /// If there is no room for it.
    pub fn scratch(&self) -> Result<PredictorScratch, ModelError> {
        let pages = vec![0.0; PAGES * self.shape().page_values()];
        Ok(PredictorScratch { arena: self.network.arena(1).map_err(failed)?, pages })
    }

    /// Calibrated probabilities that a person is interested in each category, from the interests that are known,
    /// ascending, and the vectors of the last pages, oldest first. A page without a vector of the right length has a
    /// place, but says nothing.
    ///
    /// # Errors
    /// If an interest is not among the categories, or there is not one score for each category.
    pub fn score(
        &self,
        interests: &[u32],
        pages: &[&[f32]],
        scratch: &mut PredictorScratch,
        into: &mut [f32],
    ) -> Result<(), ModelError> {
        let PredictorScratch { arena, pages: vectors } = scratch;
        let dim = self.shape().page_values();
        if dim > 0 {
            vectors.fill(0.0);
            for (place, page) in vectors.chunks_exact_mut(dim).rev().zip(pages.iter().rev()) {
                if page.len() == dim {
                    place.copy_from_slice(page);
                }
            }
        }
        self.network.predict_vectors(&self.parameters, interests, vectors, arena, into).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::federated::ClientModel;
    use crate::{Fit, Quiet, TensorData};
    use sottovoce_core::{Facts, Histories, History, PageTable, Pages, Rng};
    use std::sync::Arc;

    const CATEGORIES: usize = 6;
    const PAGE: [f32; 4] = [0.5, -1.0, 0.25, 2.0];

    fn settings() -> Vec<(&'static str, Value)> {
        [("code", "3"), ("dim", "4"), ("units", "2"), ("cohort", "7")]
            .map(|(key, value)| (key, Value::parse(value)))
            .into()
    }

    /// What a model says of a person with two interests and two pages, and what its predictor says.
    fn agree(expected: impl Fn(History<'_>, &mut [f32]), predictor: &Predictor) {
        let mut table = PageTable::new(4);
        let (first, second) = (table.push(&PAGE, &[]), table.push(&[1.0; 4], &[]));
        let pages = [first, second];
        let history = History { pages: Pages::new(&table, &pages).unwrap(), ..(&[1, 4]).into() };
        let (mut one, mut other) = ([0.0; CATEGORIES], [0.0; CATEGORIES]);
        expected(history, &mut one);
        let mut scratch = predictor.scratch().unwrap();
        // What is left of another person changes nothing.
        predictor.score(&[0], &[&[3.0; 4][..]; 5], &mut scratch, &mut other).unwrap();
        assert_ne!(one, other);
        predictor.score(&[1, 4], &[&PAGE, &[1.0; 4]], &mut scratch, &mut other).unwrap();
        assert_eq!(one, other);
        assert!(one.iter().all(|score| (0.0..=1.0).contains(score)) && one[0] != one[1]);
    }

    #[test]
    fn scores_are_those_of_the_federated_model() {
        let config = LookalikeConfig { network: network(), ..LookalikeConfig::default() };
        let client = Lookalike::client(&config, &Arc::new(Facts::default()));
        let shared = client.server.init(CATEGORIES, &mut Rng::new(3)).unwrap();
        let tensors: Vec<Tensor> = client.server.tensors().iter().map(|slice| slice.store(&shared)).collect();
        let predictor = Predictor::restore("lookalike", settings(), &tensors, CATEGORIES).unwrap();
        agree(|history, into| client.score(&shared, &[], history, into), &predictor);
    }

    #[test]
    fn scores_are_those_of_the_centralised_model() {
        let model = CENTRAL.model();
        let known = settings().into_iter().filter(|(key, _)| *key != "cohort");
        let mut recommender = model.build(&model.settings(known).unwrap());
        let people = Histories::from_lists(&[vec![0, 1, 4], vec![1, 2], vec![3, 5]], CATEGORIES).unwrap();
        recommender.fit(&people, &mut Fit::new(1, &mut Quiet)).unwrap();
        let predictor = Predictor::restore(model.name, settings(), &recommender.tensors(), CATEGORIES).unwrap();
        agree(|history, into| assert!(recommender.score_newcomer(history, into)), &predictor);
    }

    #[test]
    fn what_is_no_such_model_is_named() {
        let fails = |model, tensors: &[Tensor]| {
            Predictor::restore(model, settings(), tensors, CATEGORIES).unwrap_err().to_string()
        };
        assert!(fails("mostpop", &[]).contains("`mostpop` is no look-alike model"));
        assert!(fails("lookalike", &[]).contains("there is no tensor `input`"));
        let input = Tensor { name: "input".into(), shape: vec![1], data: TensorData::F32(vec![0.0]) };
        assert!(fails("lookalike", &[input]).contains("expected shape [6, 6]"));
    }

    fn network() -> NetworkConfig {
        NetworkConfig { code: 3, dim: 4, units: 2, dropout_share: 0.0, ..NetworkConfig::default() }
    }
}
