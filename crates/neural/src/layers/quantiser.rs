//! Vector quantisation with the straight-through estimator (van den Oord et al. 2017).
//!
//! A row z is replaced by the nearest e of a codebook. Over n rows:
//! ```text
//! loss = factor / n sum (|sg(z) - e|^2 + beta |z - sg(e)|^2)       sg: taken as constant
//! de += 2 factor / n (e - z)      dz += dy + 2 factor beta / n (z - e)
//! ```
//! The quantised row's gradient dy passes straight through to z, because the choice of a code has none.

use crate::error::{Result, expect_len, rows_of};
use crate::kernels::kernel;
use crate::{Init, Layout, Real, Role, Slot, Space};

/// Replaces vectors by the nearest of a codebook.
#[derive(Clone, Copy, Debug)]
pub struct Quantiser {
    codebook: Slot,
    width: usize,
    commitment: f64,
}

/// What backward needs of a [`Quantiser`]'s forward.
#[derive(Debug)]
pub struct QuantiserTape<'a, R> {
    /// The chosen codes, a row for each row of z.
    pub output: &'a mut [R],
    /// Which they are; the lowest among equally near ones.
    pub codes: &'a mut [u32],
    /// Mean over rows of the squared distance between z and its code.
    distance: f64,
}

impl Quantiser {
    /// Adds `name.codebook` (codes x width) to a layout, uniform within 1 / codes. `commitment` is beta, usually 0.25.
    ///
    /// # Errors
    /// If a size is 0 or the name is taken.
    pub fn new(layout: &mut Layout, name: &str, codes: usize, width: usize, commitment: f64) -> Result<Self> {
        let init = Init::Uniform(1.0 / codes.max(1) as f64);
        let codebook = layout.add(format!("{name}.codebook"), &[codes, width], Role::Weight, init)?;
        Ok(Self { codebook, width, commitment })
    }

    /// Values that a forward of so many rows takes from the arena; it takes as many indices as rows.
    pub fn space(&self, rows: usize) -> usize {
        rows.saturating_mul(self.width)
    }

    /// The nearest codes.
    ///
    /// # Errors
    /// If z is not whole rows, or the arena or the parameters are too small.
    pub fn forward<'a, R: Real>(
        &self,
        parameters: &[R],
        z: &[R],
        space: &mut Space<'a, R>,
    ) -> Result<QuantiserTape<'a, R>> {
        let rows = rows_of("input of a quantiser", z.len(), self.width)?;
        let codebook = self.codebook.of(parameters)?;
        let (output, codes) = (space.take(z.len())?, space.indices(rows)?);
        let mut distance = 0.0;
        let pairs = z.chunks_exact(self.width).zip(output.chunks_exact_mut(self.width));
        for ((z, output), code) in pairs.zip(codes.iter_mut()) {
            let (nearest, far) = nearest(z, codebook);
            *code = nearest as u32;
            distance += R::to_f64(far);
            output.copy_from_slice(&codebook[nearest * self.width..][..self.width]);
        }
        Ok(QuantiserTape { output, codes, distance: distance / rows as f64 })
    }

    /// Codebook and commitment loss.
    pub fn loss<R>(&self, tape: &QuantiserTape<'_, R>, factor: f64) -> f64 {
        factor * (1.0 + self.commitment) * tape.distance
    }

    /// Adds the gradients of the codebook and of z, given that of the quantised rows and the loss's factor.
    ///
    /// # Errors
    /// If lengths contradict each other.
    pub fn backward<R: Real>(
        &self,
        tape: &QuantiserTape<'_, R>,
        z: &[R],
        dy: &[R],
        factor: f64,
        gradients: &mut [R],
        dz: &mut [R],
    ) -> Result<()> {
        expect_len("input of a quantiser", z.len(), tape.output.len())?;
        expect_len("gradient of a quantiser", dy.len(), z.len())?;
        expect_len("gradient of a quantiser's input", dz.len(), z.len())?;
        let share = 2.0 * factor / tape.codes.len() as f64;
        let (pull, commit) = (R::of(share), R::of(share * self.commitment));
        let codebook = self.codebook.of_mut(gradients)?;
        for n in 0..z.len() {
            let apart = tape.output[n] - z[n];
            let code = tape.codes[n / self.width] as usize;
            codebook[code * self.width + n % self.width] += pull * apart;
            dz[n] += dy[n] - commit * apart;
        }
        Ok(())
    }
}

kernel! {
    fn nearest<'s, R>(z: &'s [R], codebook: &'s [R]) -> (usize, R) {
        let distance = |code: &[R]| {
            z.iter().zip(code).map(|(&z, &e)| (z - e) * (z - e)).fold(R::ZERO, |sum, square| sum + square)
        };
        let mut codes = codebook.chunks_exact(z.len()).map(distance).enumerate();
        let first = codes.next().unwrap_or((0, R::ZERO));
        codes.fold(first, |best, code| if code.1 < best.1 { code } else { best })
    }
}
