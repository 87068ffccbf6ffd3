//! The pages that a person read last.

use crate::functions::column;
use crate::packed::{Piece, put, take, unzigzag, values, zigzag};
use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, ListArray, StringBuilder, StructArray};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, Fields, Int64Type};
use datafusion::common::Result;
use datafusion::logical_expr::ColumnarValue;
use std::cmp::Reverse;
use std::sync::Arc;

/// Pages of a person that a model sees.
pub const LAST_PAGES: usize = 5;

/// A page with the time of its last visit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Page {
    time: i64,
    page: Box<str>,
}

impl Piece for Page {
    type Rule = ();
    const NAMES: [&'static str; 2] = ["pages_of", "merge_pages"];
    const CONSTANTS: usize = 0;

    /// Time and page.
    fn columns() -> Vec<DataType> {
        vec![DataType::Int64, DataType::Utf8View]
    }

    fn rule(_: &[i64]) {}

    fn of_clicks(columns: &[ArrayRef], each: &mut dyn FnMut(usize, Self)) -> Result<()> {
        let (times, pages) = (columns[0].as_primitive::<Int64Type>(), columns[1].as_string_view());
        for row in 0..times.len() {
            each(row, Self { time: times.value(row), page: pages.value(row).into() });
        }
        Ok(())
    }

    /// Each page once, the last ones first.
    fn combine(all: &mut Vec<Self>, (): &()) {
        all.sort_unstable_by(|one, other| (&one.page, Reverse(one.time)).cmp(&(&other.page, Reverse(other.time))));
        all.dedup_by(|next, kept| next.page == kept.page);
        all.sort_unstable_by(|one, other| (Reverse(one.time), &one.page).cmp(&(Reverse(other.time), &other.page)));
        all.truncate(LAST_PAGES);
    }

    fn pack(&self, into: &mut Vec<u8>) {
        put(zigzag(self.time), into);
        put(self.page.len() as u64, into);
        into.extend_from_slice(self.page.as_bytes());
    }

    fn unpack(bytes: &mut &[u8]) -> Option<Self> {
        let (time, length) = (unzigzag(take(bytes)?), usize::try_from(take(bytes)?).ok()?);
        let (page, rest) = bytes.split_at_checked(length)?;
        *bytes = rest;
        Some(Self { time, page: std::str::from_utf8(page).ok()?.into() })
    }
}

fn fields() -> Fields {
    Fields::from(vec![Field::new("time", DataType::Int64, false), Field::new("page", DataType::Utf8, false)])
}

/// A list of times and pages.
pub(crate) fn pages_type() -> DataType {
    DataType::new_list(DataType::Struct(fields()), true)
}

/// The pages of packed values, the last ones first.
pub(crate) fn unpack_pages(args: &[ColumnarValue]) -> Result<ArrayRef> {
    let packed = column(args, 0)?;
    let (mut times, mut names, mut lengths) = (Vec::new(), StringBuilder::new(), Vec::new());
    let mut pages: Vec<Page> = Vec::new();
    for bytes in values(packed.as_binary_view()) {
        pages.clear();
        Page::unpack_all(bytes, &mut pages)?;
        lengths.push(pages.len());
        for page in &pages {
            times.push(page.time);
            names.append_value(&page.page);
        }
    }
    let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(times)), Arc::new(names.finish())];
    let pages = StructArray::new(fields(), columns, None);
    let field = Field::new_list_field(DataType::Struct(fields()), true);
    Ok(Arc::new(ListArray::new(Arc::new(field), OffsetBuffer::from_lengths(lengths), Arc::new(pages), None)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_five_pages_count_each_once() {
        let page = |time: i64, page: &str| Page { time, page: page.into() };
        let mut all: Vec<Page> = (0..9).map(|number| page(number, &format!("p{}", number % 6))).collect();
        let mut some = all.split_off(4);
        Page::combine(&mut some, &());
        all.extend(some);
        Page::combine(&mut all, &());
        let expected = [(8, "p2"), (7, "p1"), (6, "p0"), (5, "p5"), (4, "p4")].map(|(time, name)| page(time, name));
        assert_eq!(all, expected);
        let mut bytes = Vec::new();
        all.iter().for_each(|page| page.pack(&mut bytes));
        let mut back = Vec::new();
        Page::unpack_all(&bytes, &mut back).unwrap();
        assert_eq!(back, expected);
        assert!(Page::unpack_all(&bytes[..bytes.len() - 1], &mut back).is_err());
    }
}
