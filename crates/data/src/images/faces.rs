//! Synthetic faces, a substitute for CelebA where that is not available.
//!
//! Not photographs and no substitute for them: an ellipse with eyes and a mouth on a background, drawn with enough that
//! varies (place, size, brightness, tint, light from one side, noise) that a network has to learn what a smile is. What
//! is like CelebA is what the study is about: many people with few images each, whose number differs from person to
//! person; people who smile nearly always or hardly ever, so that classes are unevenly spread; blurred images, which
//! are marked, and more of them with some people than with others; and a few labels that are wrong.

use super::celeba::Faces;
use super::consecutive;
use super::error::{ImageDataError, Result};
use rayon::prelude::*;
use sottovoce_core::{Images, Rng, math};

/// Images of a person at least, and at most.
const FEWEST: usize = 5;
const MOST: usize = 60;
/// Share of wrong labels.
const WRONG: f64 = 0.03;

/// Parameters of synthetic faces.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FacesSpec {
    /// Number of people.
    pub people: usize,
    /// Mean number of images of a person.
    pub images: f64,
    /// Height and width of an image.
    pub side: usize,
    /// 1 for grey values, 3 for colours.
    pub channels: usize,
    /// Seed of everything.
    pub seed: u64,
}

/// What stays the same in all images of a person.
struct Person {
    images: usize,
    /// Probability of a smile, and of a blurred image.
    smiling: f64,
    blurred: f64,
    skin: f64,
    ground: f64,
    hair: f64,
    width: f64,
    height: f64,
    mouth: f64,
    tint: [f64; 3],
}

impl Person {
    fn new(spec: &FacesSpec, rng: &mut Rng) -> Self {
        let more = (spec.images - FEWEST as f64).max(0.0);
        let images = FEWEST + (more * rng.exponential()) as usize;
        let between = |rng: &mut Rng, low: f64, high: f64| low + (high - low) * rng.unit();
        // A logistic of a wide normal: many people near one of the ends.
        let smiling = 1.0 / (1.0 + math::exp(-1.5 * rng.normal()));
        let tinted = |rng: &mut Rng| 1.0 + 0.15 * (2.0 * rng.unit() - 1.0);
        Self {
            images: images.min(MOST),
            smiling,
            blurred: 0.3 * rng.unit() * rng.unit(),
            skin: between(rng, 0.45, 0.9),
            ground: between(rng, 0.1, 0.8),
            hair: between(rng, 0.05, 0.4),
            width: between(rng, 0.52, 0.68),
            height: between(rng, 0.7, 0.86),
            mouth: between(rng, 0.24, 0.36),
            tint: [tinted(rng), tinted(rng), tinted(rng)],
        }
    }
}

/// Generates faces; the same for the same parameters, on every machine.
///
/// # Errors
/// If there are no people, or an image would have no pixels.
pub fn synthetic_faces(spec: &FacesSpec) -> Result<Faces> {
    if spec.people == 0 || !(8..=256).contains(&spec.side) || ![1, 3].contains(&spec.channels) {
        return Err(ImageDataError::Setting(format!(
            "made-up faces of {} people, {} pixels a side, {} channels: at least one person, 8 to 256 pixels and 1 or 3 channels are needed",
            spec.people, spec.side, spec.channels
        )));
    }
    let rng = Rng::new(spec.seed).stream("faces", 0);
    let own: Vec<Vec<Drawn>> = (0..spec.people as u64)
        .into_par_iter()
        .map(|number| {
            let rng = rng.stream("person", number);
            let person = Person::new(spec, &mut rng.stream("traits", 0));
            (0..person.images as u64).map(|n| draw(spec, &person, &mut rng.stream("image", n))).collect()
        })
        .collect();
    let people = consecutive(own.iter().map(Vec::len));
    let (mut pixels, mut labels, mut sharp) = (Vec::new(), Vec::new(), Vec::new());
    for drawn in own.into_iter().flatten() {
        pixels.extend(drawn.pixels);
        labels.push(u8::from(drawn.smiling));
        sharp.push(drawn.sharp);
    }
    let images = Images::new([spec.channels, spec.side, spec.side], 2, pixels, labels)?;
    Ok(Faces { images: images.with_sharpness(sharp)?, people })
}

struct Drawn {
    pixels: Vec<u8>,
    smiling: bool,
    sharp: bool,
}

/// What differs from image to image.
struct Pose {
    across: f64,
    down: f64,
    scale: f64,
    light: [f64; 2],
    bright: f64,
    /// How far the corners of the mouth are up; negative: down.
    curve: f64,
    /// How far it is open.
    open: f64,
}

fn draw(spec: &FacesSpec, person: &Person, rng: &mut Rng) -> Drawn {
    let smiling = rng.chance(person.smiling);
    let sharp = !rng.chance(person.blurred);
    let curve = if smiling { 0.11 } else { -0.02 } + 0.045 * rng.normal();
    let pose = Pose {
        across: 0.12 * rng.normal(),
        down: 0.08 * rng.normal(),
        scale: 1.0 + 0.1 * rng.normal(),
        light: [0.2 * rng.normal(), 0.2 * rng.normal()],
        bright: 1.0 + 0.15 * rng.normal(),
        curve,
        open: (0.04 + 0.03 * rng.normal()).max(0.015),
    };
    let side = spec.side;
    let mut grey: Vec<f64> = (0..side * side)
        .map(|n| {
            let place = |n: usize| 2.0 * (n as f64 + 0.5) / side as f64 - 1.0;
            shade(person, &pose, place(n % side), place(n / side))
        })
        .collect();
    if !sharp {
        for _ in 0..2 {
            grey = blurred(&grey, side, side.div_ceil(20));
        }
    }
    let noise: Vec<f64> = (0..side * side).map(|_| 0.03 * rng.normal()).collect();
    let value = |value: f64| (255.0 * value).clamp(0.0, 255.0) as u8;
    let channel = |channel: usize| {
        let tint = if spec.channels == 1 { 1.0 } else { person.tint[channel] };
        grey.iter().zip(&noise).map(move |(grey, noise)| value(grey * tint + noise)).collect::<Vec<u8>>()
    };
    let pixels = (0..spec.channels).flat_map(channel).collect();
    Drawn { pixels, smiling: smiling != rng.chance(WRONG), sharp }
}

/// The brightness at a place, both coordinates from -1 to 1, y downwards.
fn shade(person: &Person, pose: &Pose, x: f64, y: f64) -> f64 {
    let light = pose.bright * (1.0 + pose.light[0] * x + pose.light[1] * y);
    let (x, y) = ((x - pose.across) / pose.scale, (y - pose.down) / pose.scale);
    let inside = |cx: f64, cy: f64, w: f64, h: f64| {
        let distance = (x - cx) * (x - cx) / (w * w) + (y - cy) * (y - cy) / (h * h);
        // From 1 inside to 0 outside, over a narrow edge.
        ((1.1 - distance) / 0.2).clamp(0.0, 1.0)
    };
    let over = |below: f64, above: f64, share: f64| below + share * (above - below);
    let mut shade = person.ground;
    shade = over(shade, person.hair, inside(0.0, -0.15, person.width + 0.1, person.height + 0.05));
    shade = over(shade, person.skin, inside(0.0, 0.08, person.width, person.height));
    for eye in [-0.24, 0.24] {
        shade = over(shade, 0.95, inside(eye, -0.12, 0.11, 0.06));
        shade = over(shade, 0.1, inside(eye, -0.12, 0.05, 0.055));
    }
    shade = over(shade, person.skin * 0.75, inside(0.0, 0.12, 0.05, 0.13));
    // The mouth is a parabola: its corners rise with the curve.
    let reach = x / person.mouth;
    let middle = 0.45 + pose.curve - 2.0 * pose.curve * reach * reach;
    let lip = ((pose.open + 0.03 - (y - middle).abs()) / 0.03).clamp(0.0, 1.0);
    let width = ((1.08 - reach.abs()) / 0.16).clamp(0.0, 1.0);
    let mouth = if (y - middle).abs() < pose.open - 0.02 && pose.curve > 0.05 { 0.92 } else { 0.2 };
    over(shade, mouth, lip * width) * light
}

/// Means over squares of pixels, cut off at the edge.
fn blurred(values: &[f64], side: usize, radius: usize) -> Vec<f64> {
    let line = |along: usize, across: usize, from: &[f64]| {
        let mut into = vec![0.0; from.len()];
        for (n, m) in (0..side).flat_map(|n| (0..side).map(move |m| (n, m))) {
            let near = m.saturating_sub(radius)..(m + radius + 1).min(side);
            let count = near.len() as f64;
            into[n * across + m * along] = near.map(|m| from[n * across + m * along]).sum::<f64>() / count;
        }
        into
    };
    line(side, 1, &line(1, side, values))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> FacesSpec {
        FacesSpec { people: 60, images: 12.0, side: 16, channels: 1, seed: 3 }
    }

    #[test]
    fn people_differ_in_size_classes_and_blur() {
        let faces = synthetic_faces(&spec()).unwrap();
        let sizes: Vec<usize> = faces.people.iter().map(Vec::len).collect();
        assert!(sizes.iter().all(|&size| (FEWEST..=MOST).contains(&size)));
        assert!(sizes.iter().max().unwrap() > &25 && sizes.iter().filter(|&&size| size < 9).count() > 10);
        let share = |own: &[u32], is: &dyn Fn(u32) -> bool| {
            own.iter().filter(|&&image| is(image)).count() as f64 / own.len() as f64
        };
        let smiles = |image: u32| faces.images.labels()[image as usize] == 1;
        let smiling: Vec<f64> = faces.people.iter().map(|own| share(own, &smiles)).collect();
        let mean = smiling.iter().sum::<f64>() / 60.0;
        assert!((0.35..0.65).contains(&mean), "{mean}");
        assert!(smiling.iter().any(|&share| share < 0.15) && smiling.iter().any(|&share| share > 0.85));
        let blurry = (0..faces.images.len()).filter(|&image| !faces.images.is_sharp(image)).count();
        assert!((1..faces.images.len() / 4).contains(&blurry), "{blurry}");
    }

    #[test]
    fn blurred_images_have_less_detail_and_seeds_reproduce() {
        let faces = synthetic_faces(&spec()).unwrap();
        assert_eq!(faces.images, synthetic_faces(&spec()).unwrap().images);
        assert_ne!(faces.images, synthetic_faces(&FacesSpec { seed: 4, ..spec() }).unwrap().images);
        let detail = |image: usize| -> f64 {
            let pixels = faces.images.pixels_of(image);
            pixels.windows(2).map(|pair| f64::from(pair[0].abs_diff(pair[1]))).sum()
        };
        let mean = |sharp: bool| {
            let some: Vec<f64> =
                (0..faces.images.len()).filter(|&image| faces.images.is_sharp(image) == sharp).map(detail).collect();
            some.iter().sum::<f64>() / some.len() as f64
        };
        assert!(mean(false) < 0.8 * mean(true), "{} {}", mean(false), mean(true));
    }

    #[test]
    fn rejects_impossible_specifications() {
        let error = synthetic_faces(&FacesSpec { people: 0, ..spec() }).unwrap_err().to_string();
        assert!(error.contains("0 people"), "{error}");
        assert!(synthetic_faces(&FacesSpec { side: 4, ..spec() }).is_err());
        assert!(synthetic_faces(&FacesSpec { channels: 2, ..spec() }).is_err());
    }
}
