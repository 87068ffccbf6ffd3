//! Decoding of JPEG and PNG, and resizing.

use std::io::Cursor;
use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

/// Sides of a picture at most; larger ones are not photographs of faces.
const MOST_SIDE: usize = 1 << 13;

/// A decoded picture: rows of pixels of three values.
struct Picture {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

/// A JPEG or PNG picture as `channels` (1 or 3) x `side` x `side` values.
pub(super) fn decode(bytes: &[u8], channels: usize, side: usize) -> Result<Vec<u8>, String> {
    let picture = match bytes {
        [0xff, 0xd8, ..] => jpeg(bytes)?,
        [0x89, b'P', b'N', b'G', ..] => png(bytes)?,
        _ => return Err("neither JPEG nor PNG".to_owned()),
    };
    Ok(shrunk(&picture, channels, side))
}

fn jpeg(bytes: &[u8]) -> Result<Picture, String> {
    let options = DecoderOptions::default()
        .set_max_width(MOST_SIDE)
        .set_max_height(MOST_SIDE)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    let pixels = decoder.decode().map_err(|error| format!("{error:?}"))?;
    let (width, height) = decoder.dimensions().ok_or("no size")?;
    picture(width, height, pixels)
}

fn png(bytes: &[u8]) -> Result<Picture, String> {
    let mut decoder = png::Decoder::new(Cursor::new(bytes));
    decoder.set_transformations(png::Transformations::EXPAND | png::Transformations::STRIP_16);
    let mut reader = decoder.read_info().map_err(|error| error.to_string())?;
    let info = reader.info();
    let (width, height) = (info.width as usize, info.height as usize);
    if width.max(height) > MOST_SIDE {
        return Err(format!("{width} x {height} pixels, at most {MOST_SIDE} are read"));
    }
    let mut values = vec![0; reader.output_buffer_size().ok_or("too large")?];
    let frame = reader.next_frame(&mut values).map_err(|error| error.to_string())?;
    values.truncate(frame.buffer_size());
    let pixels = match frame.color_type {
        png::ColorType::Rgb => values,
        png::ColorType::Rgba => values.as_chunks::<4>().0.iter().flat_map(|[r, g, b, _]| [*r, *g, *b]).collect(),
        png::ColorType::Grayscale => values.iter().flat_map(|&grey| [grey; 3]).collect(),
        png::ColorType::GrayscaleAlpha => values.as_chunks::<2>().0.iter().flat_map(|[grey, _]| [*grey; 3]).collect(),
        png::ColorType::Indexed => return Err("indexed colours".to_owned()),
    };
    picture(width, height, pixels)
}

fn picture(width: usize, height: usize, pixels: Vec<u8>) -> Result<Picture, String> {
    if width == 0 || height == 0 || pixels.len() != 3 * width * height {
        return Err(format!("{} values for {width} x {height} pixels", pixels.len()));
    }
    Ok(Picture { width, height, pixels })
}

/// Means over the parts of the picture that become a pixel each; a picture smaller than that is enlarged.
fn shrunk(picture: &Picture, channels: usize, side: usize) -> Vec<u8> {
    let mut values = Vec::with_capacity(channels * side * side);
    for channel in 0..channels {
        for (row, column) in (0..side).flat_map(|row| (0..side).map(move |column| (row, column))) {
            let (rows, columns) = (part(picture.height, side, row), part(picture.width, side, column));
            let (mut sum, mut count) = (0u64, 0u64);
            for (y, x) in rows.flat_map(|y| columns.clone().map(move |x| (y, x))) {
                let pixel = &picture.pixels[3 * (y * picture.width + x)..][..3];
                sum += u64::from(if channels == 1 { grey(pixel) } else { pixel[channel] });
                count += 1;
            }
            values.push(((sum + count / 2) / count) as u8);
        }
    }
    values
}

/// The pixels of a side that come to one of `parts`; at least one.
fn part(side: usize, parts: usize, n: usize) -> std::ops::Range<usize> {
    let start = side * n / parts;
    start..(side * (n + 1) / parts).max(start + 1)
}

/// Brightness after ITU-R BT.601, in 256ths.
fn grey(pixel: &[u8]) -> u8 {
    let sum = [77u32, 150, 29].iter().zip(pixel).map(|(share, &value)| share * u32::from(value)).sum::<u32>();
    ((sum + 128) >> 8) as u8
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn png_of(width: u32, height: u32, colour: png::ColorType, values: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width, height);
        encoder.set_color(colour);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.write_header().unwrap().write_image_data(values).unwrap();
        bytes
    }

    /// Sixteen by sixteen pixels, the left half (40, 40, 40), the right half (200, 160, 40).
    const JPEG: &[u8] = include_bytes!("../../tests/pictures/two-tone.jpg");

    #[test]
    fn decodes_and_resizes_pictures() {
        let values = [10, 30, 50, 70, 20, 40, 60, 80];
        let png = png_of(4, 2, png::ColorType::Grayscale, &values);
        assert_eq!(decode(&png, 1, 2).unwrap(), [20, 60, 30, 70]);
        assert_eq!(decode(&png, 3, 1).unwrap(), [45; 3]);
        assert_eq!(decode(&png, 1, 4).unwrap()[..4], [10, 30, 50, 70]);
        let png = png_of(1, 1, png::ColorType::Rgba, &[200, 100, 0, 255]);
        assert_eq!((decode(&png, 3, 1).unwrap(), decode(&png, 1, 1).unwrap()), (vec![200, 100, 0], vec![119]));
        let colours = decode(JPEG, 3, 2).unwrap();
        let expected = [40, 200, 40, 200, 40, 160, 40, 160, 40, 40, 40, 40];
        let near = colours.iter().zip(expected).all(|(found, expected): (&u8, u8)| found.abs_diff(expected) <= 3);
        assert!(near, "{colours:?}");
    }

    #[test]
    fn rejects_bytes_that_are_no_picture() {
        let png = png_of(2, 1, png::ColorType::Grayscale, &[1, 2]);
        for bytes in [&b""[..], b"GIF89a", &png[..40], &JPEG[..30]] {
            assert!(decode(bytes, 1, 2).is_err());
        }
    }
}
