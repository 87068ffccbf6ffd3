//! Both networks against central differences, and what must not matter.

use super::*;
use crate::sequential::gru4rec::Gru4RecShape;
use sottovoce_neural::{Arena, Mask};

fn networks() -> Vec<(&'static str, Layout, SequenceNetwork)> {
    let transformer =
        |mask| TransformerShape { width: 4, heads: 2, layers: 2, inner: 6, positions: 5, mask, dropout: 0.3 };
    let gru = Gru4RecShape { width: 4, units: 3, layers: 2, dropout: 0.3 };
    let mut all = Vec::new();
    for (name, mask) in [("SASRec", Mask::Causal), ("BERT4Rec", Mask::None)] {
        let mut layout = Layout::default();
        let network = SequenceNetwork::transformer(&mut layout, "n", &transformer(mask)).unwrap();
        all.push((name, layout, network));
    }
    let mut layout = Layout::default();
    let network = SequenceNetwork::gru4rec(&mut layout, "n", &gru).unwrap();
    all.push(("GRU4Rec", layout, network));
    all
}

fn normals(label: &str, len: usize) -> Vec<f64> {
    let mut rng = Rng::new(5).stream(label, 0);
    (0..len).map(|_| 0.5 * rng.normal()).collect()
}

fn arena(network: &SequenceNetwork, starts: &[usize]) -> Arena<f64> {
    let longest = starts.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    Arena::new(network.space(starts.len() - 1, *starts.last().unwrap(), longest), 0).unwrap()
}

fn output(network: &SequenceNetwork, p: &[f64], x: &[f64], starts: &[usize]) -> Vec<f64> {
    let mut arena = arena(network, starts);
    let tape = network.forward(p, x, Packed::new(starts).unwrap(), None, &mut arena.space()).unwrap();
    tape.output().to_vec()
}

#[test]
fn gradients_equal_central_differences() {
    let starts = [0, 3, 4, 9];
    for (name, layout, network) in networks() {
        for seed in [None, Some(7)] {
            let point = normals("point", layout.len() + 9 * 4);
            let dh = normals("dh", 9 * 4);
            let loss = |point: &[f64], gradient: &mut [f64]| {
                let ((p, x), (dp, dx)) = (point.split_at(layout.len()), gradient.split_at_mut(layout.len()));
                let mut arena = arena(&network, &starts);
                let (mut space, mut rng) = (arena.space(), seed.map(Rng::new));
                let packed = Packed::new(&starts).unwrap();
                let tape = network.forward(p, x, packed, rng.as_mut(), &mut space).unwrap();
                network.backward(p, &tape, &dh, dp, Some(dx), &mut space).unwrap();
                tape.output().iter().zip(&dh).map(|(h, d)| h * d).sum::<f64>()
            };
            let mut gradient = vec![0.0; point.len()];
            loss(&point, &mut gradient);
            let (mut moved, mut unused) = (point.clone(), vec![0.0; point.len()]);
            for n in 0..point.len() {
                let mut at = |shift: f64| {
                    moved[n] = point[n] + shift;
                    loss(&moved, &mut unused)
                };
                let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
                moved[n] = point[n];
                assert!(
                    (slope - gradient[n]).abs() < 1e-6 * (1.0 + slope.abs()),
                    "{name} {n}: {slope} {}",
                    gradient[n]
                );
            }
        }
    }
}

#[test]
fn sequences_do_not_see_each_other_and_causal_ones_not_the_future() {
    for (name, layout, network) in networks() {
        let (p, x) = (normals("p", layout.len()), normals("x", 9 * 4));
        let together = output(&network, &p, &x, &[0, 3, 4, 9]);
        let alone = output(&network, &p, &x[16..], &[0, 5]);
        assert!(together[16..].iter().zip(&alone).all(|(a, b)| (a - b).abs() < 1e-12), "{name}");
        let mut changed = x.clone();
        changed[35] += 1.0;
        let changed = output(&network, &p, &changed, &[0, 3, 4, 9]);
        let earlier = together[16..32].iter().zip(&changed[16..32]).all(|(a, b)| a == b);
        assert_eq!(earlier, name != "BERT4Rec", "{name}");
        assert_ne!(together[32..], changed[32..], "{name}");
    }
}

#[test]
fn rejects_what_does_not_fit() {
    for (name, layout, network) in networks() {
        let (p, x) = (normals("p", layout.len()), normals("x", 9 * 4));
        let mut arena = Arena::new(network.space(2, 9, 9), 0).unwrap();
        let mut fails = |x: &[f64], starts: &[usize]| {
            Packed::new(starts).is_ok_and(|packed| network.forward(&p, x, packed, None, &mut arena.space()).is_ok())
        };
        assert!(fails(&x[..20], &[0, 1, 5]), "{name}");
        assert!(!fails(&x[..20], &[0, 4]) && !fails(&x[..20], &[0, 5, 5]) && !fails(&x[..20], &[1, 5]), "{name}");
        assert_eq!(fails(&x, &[0, 9]), name == "GRU4Rec", "more items than positions");
    }
    let shape = Gru4RecShape { width: 4, units: 3, layers: 5, dropout: 0.3 };
    assert!(SequenceNetwork::gru4rec(&mut Layout::default(), "n", &shape).is_err());
}
