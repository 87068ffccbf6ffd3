//! The server's half: an encoder for each cluster.

use crate::federated::{ServerModel, TensorSlice};
use sottovoce_core::Rng;
use sottovoce_protocol::{Keyed, Layout, ModelError, Parameters, Shape, Table};
use super::network::Network;

/// What runs on the server.
#[derive(Clone, Debug)]
pub struct Server {
    pub(super) network: Option<Network>,
}

impl Server {
    pub(super) fn encoder_values(&self) -> usize {
        self.network.as_ref().map_or(0, |network| network.encoder().len())
    }
    fn shape(&self) -> Shape {
        Shape::new("encoders", 1, self.encoder_values() as u32, Keyed::Dense)
    }
}

impl ServerModel for Server {
    fn layout(&self, _: usize) -> Result<Layout, ModelError> {
        Layout::new(vec![self.shape()])
    }

    fn init(&self, _: usize, rng: &mut Rng) -> Result<Parameters, ModelError> {
        let mut table = Table::zeros(self.shape())?;
        if let Some(network) = &self.network {
            let mut flat = network.layout().zeros::<f32>();
            // The buffer is as long as the layout says.
            let _ = network.layout().initialise(&mut flat, &rng.stream("encoder", 0));
            table.values_mut().copy_from_slice(&flat[network.encoder()]);
        }
        Parameters::new(vec![table])
    }

    fn tensors(&self) -> Vec<TensorSlice> {
        vec![TensorSlice::matrix("encoders", 0, 0..self.encoder_values())]
    }
}
