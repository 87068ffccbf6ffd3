//! How long an image takes to learn from and to classify, by network, on one core.
#![allow(clippy::print_stdout)]

use sottovoce_core::{Images, Rng};
use sottovoce_models::classifier::{Architecture, Network};
use sottovoce_neural::{Arithmetic, NeuralError};
use std::time::Instant;

const IMAGES: usize = 600;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut rng = Rng::new(1);
    let shape = [1, 28, 28];
    // About as many zeros as MNIST has.
    let pixels = (0..IMAGES * 784).map(|_| if rng.chance(0.2) { rng.below(256) as u8 } else { 0 }).collect();
    let labels = (0..IMAGES).map(|n| (n % 10) as u8).collect();
    let images = Images::new(shape, 10, pixels, labels)?;
    for (name, architecture) in Architecture::NAMES {
        let network = Network::new(*architecture, shape, 10, Arithmetic::Machine)?;
        let (learn, look) = microseconds(&network, &images, IMAGES)?;
        let (small, _) = microseconds(&network, &images, 10)?;
        println!(
            "{name:10} {:8} parameters: learn {learn:6.0} us, in tens {small:6.0} us, look {look:6.0} us an image",
            network.layout().len()
        );
    }
    Ok(())
}

/// An image's share of a step with its gradient, and of a look at it.
fn microseconds(network: &Network, images: &Images, batch: usize) -> Result<(f64, f64), NeuralError> {
    let mut parameters = network.layout().zeros::<f32>();
    network.initialise(&mut parameters, &Rng::new(1))?;
    let (mut gradients, mut arena) = (network.layout().zeros::<f32>(), network.arena()?);
    let list: Vec<u32> = (0..IMAGES as u32).collect();
    let mut best = (f64::INFINITY, f64::INFINITY);
    for _ in 0..3 {
        let started = Instant::now();
        for batch in list.chunks(batch) {
            network.add_gradient(&parameters, images, batch, &mut gradients, &mut arena)?;
        }
        best.0 = best.0.min(started.elapsed().as_secs_f64());
        let started = Instant::now();
        network.classify(&parameters, images, &list, &mut arena, |_, _| {})?;
        best.1 = best.1.min(started.elapsed().as_secs_f64());
    }
    let share = |seconds: f64| 1e6 * seconds / IMAGES as f64;
    Ok((share(best.0), share(best.1)))
}
