//! Vector loops of training. Rows are whole blocks of eight lanes, padded with zeros that stay zeros. No product is
//! fused with a sum, so that the bits do not depend on the machine.

/// Lanes of a block.
pub(super) const LANES: usize = 8;

/// Eight values.
pub(super) type Block = [f32; LANES];

/// A table of rows of the same length.
#[derive(Clone)]
pub(super) struct Table {
    pub(super) blocks: Vec<Block>,
    /// Blocks a row.
    pub(super) width: usize,
}

impl Table {
    pub(super) fn new(rows: usize, dim: usize) -> Self {
        let width = dim.div_ceil(LANES);
        Self { blocks: vec![[0.0; LANES]; rows * width], width }
    }

    #[inline(always)]
    pub(super) fn row(&self, row: u32) -> &[Block] {
        &self.blocks[row as usize * self.width..][..self.width]
    }

    #[inline(always)]
    pub(super) fn row_mut(&mut self, row: u32) -> &mut [Block] {
        &mut self.blocks[row as usize * self.width..][..self.width]
    }
}

/// Products of one row with each of K rows.
#[inline(always)]
pub(super) fn dots<const K: usize>(a: &[Block], rows: [&[Block]; K]) -> [f32; K] {
    // Never fails; proves to the compiler that no index below is outside.
    assert!(rows.iter().all(|row| row.len() == a.len()));
    let mut lanes = [[0.0f32; LANES]; K];
    for n in 0..a.len() {
        for k in 0..K {
            let mut sum = lanes[k];
            for lane in 0..LANES {
                sum[lane] += a[n][lane] * rows[k][n][lane];
            }
            lanes[k] = sum;
        }
    }
    sums_of(&lanes)
}

/// Not inlined, so that the lanes stay whole vectors in the loop before it.
#[inline(never)]
fn sums_of<const K: usize>(lanes: &[Block; K]) -> [f32; K] {
    lanes.map(|l| ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7])))
}

/// `y += a_0 x_0 + a_1 x_1 + ...`
#[inline(always)]
pub(super) fn add_scaled<const K: usize>(y: &mut [Block], a: [f32; K], x: [&[Block]; K]) {
    assert!(x.iter().all(|x| x.len() == y.len()));
    for n in 0..y.len() {
        let mut sum = y[n];
        for k in 0..K {
            for lane in 0..LANES {
                sum[lane] += a[k] * x[k][n][lane];
            }
        }
        y[n] = sum;
    }
}

/// `y += x_0 + x_1 + ...`
#[inline(always)]
pub(super) fn add<const K: usize>(y: &mut [Block], x: [&[Block]; K]) {
    assert!(x.iter().all(|x| x.len() == y.len()));
    for n in 0..y.len() {
        let mut sum = y[n];
        for k in 0..K {
            for lane in 0..LANES {
                sum[lane] += x[k][n][lane];
            }
        }
        y[n] = sum;
    }
}

/// `y *= a`.
#[inline(always)]
pub(super) fn scale(y: &mut [Block], a: f32) {
    for block in y {
        for value in block {
            *value *= a;
        }
    }
}
