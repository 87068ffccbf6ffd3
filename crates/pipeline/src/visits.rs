//! What a person has visited, by category and day, and the interests that follow.

use crate::functions::{DWELL_UNITS, Parsed, column, json, text};
use crate::packed::{Piece, put, take, unzigzag, values, zigzag};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Float64Builder, Int32Builder, ListBuilder, StringBuilder, StructArray, UInt16Builder,
};
use datafusion::arrow::datatypes::{DataType, Field, Fields, Int64Type, UInt16Type};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, exec_err};
use datafusion::logical_expr::ColumnarValue;
use sottovoce_data::interests::{Interest, frequency, recency};
use std::sync::Arc;

const DAY: i64 = 86_400;

/// Visits of a person to pages of a category, on one day or over several that need not be told apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Visits {
    category: u16,
    /// The last of them.
    last: i64,
    count: u32,
    /// Those whose time on page is not known.
    untimed: u32,
    /// Time on page of the others.
    dwell: i64,
}

/// Which days need not be told apart: those before the first, and those from the second on.
#[derive(Clone, Copy)]
pub(crate) struct Periods {
    first: i64,
    second: i64,
}

impl Periods {
    fn of(&self, time: i64) -> i64 {
        match time.div_euclid(DAY) {
            day if day < self.first => i64::MIN,
            day => day.min(self.second),
        }
    }
}

impl Piece for Visits {
    type Rule = Periods;
    const NAMES: [&'static str; 2] = ["visits_of", "merge_visits"];
    const CONSTANTS: usize = 2;

    /// Codes of categories, time, time on page.
    fn columns() -> Vec<DataType> {
        vec![DataType::Binary, DataType::Int64, DataType::Int64]
    }

    fn rule(constants: &[i64]) -> Periods {
        Periods { first: constants[0], second: constants[1] }
    }

    fn of_clicks(columns: &[ArrayRef], each: &mut dyn FnMut(usize, Self)) -> Result<()> {
        let codes = columns[0].as_binary::<i32>();
        let (times, dwells) = (columns[1].as_primitive::<Int64Type>(), columns[2].as_primitive::<Int64Type>());
        for row in 0..codes.len() {
            let timed = dwells.is_valid(row);
            let dwell = if timed { dwells.value(row) } else { 0 };
            for code in codes.value(row).as_chunks::<2>().0 {
                let category = u16::from_be_bytes(*code);
                each(row, Self { category, last: times.value(row), count: 1, untimed: u32::from(!timed), dwell });
            }
        }
        Ok(())
    }

    fn combine(all: &mut Vec<Self>, periods: &Periods) {
        all.sort_unstable_by_key(|visits| (visits.category, visits.last));
        all.dedup_by(|next, kept| {
            let same = next.category == kept.category && periods.of(next.last) == periods.of(kept.last);
            if same {
                kept.last = next.last;
                kept.count = kept.count.saturating_add(next.count);
                kept.untimed = kept.untimed.saturating_add(next.untimed);
                kept.dwell = kept.dwell.saturating_add(next.dwell);
            }
            same
        });
    }

    fn pack(&self, into: &mut Vec<u8>) {
        // Most are a single visit whose time is known.
        let plain = self.count == 1 && self.untimed == 0;
        put(u64::from(self.category) << 1 | u64::from(!plain), into);
        put(zigzag(self.last), into);
        put(zigzag(self.dwell), into);
        if !plain {
            put(u64::from(self.count), into);
            put(u64::from(self.untimed), into);
        }
    }

    fn unpack(bytes: &mut &[u8]) -> Option<Self> {
        let head = take(bytes)?;
        let (last, dwell) = (unzigzag(take(bytes)?), unzigzag(take(bytes)?));
        let [count, untimed] = match head & 1 {
            0 => [1, 0],
            _ => [take(bytes)?, take(bytes)?],
        };
        let category = u16::try_from(head >> 1).ok()?;
        Some(Self { category, last, count: count.try_into().ok()?, untimed: untimed.try_into().ok()?, dwell })
    }
}

/// Interests of a person: lists of the same length.
pub(crate) fn interests_type() -> DataType {
    let list = |name: &str, kind| Field::new(name, DataType::new_list(kind, true), false);
    DataType::Struct(Fields::from(vec![
        list("category", DataType::UInt16),
        list("recency", DataType::Int32),
        list("frequency", DataType::Int32),
        list("seconds", DataType::Float64),
        list("score", DataType::Int32),
    ]))
}

/// Ids of categories by code; none for those that must not be scored any more.
type Ids = Vec<Option<String>>;

fn ids(args: &[ColumnarValue], at: usize) -> Result<Arc<Ids>> {
    static IDS: Parsed<Ids> = Parsed::new();
    IDS.get(text(args, at)?.as_bytes(), json)
}

fn id(ids: &Ids, code: u16) -> Result<Option<&str>> {
    let id = ids.get(usize::from(code)).ok_or_else(|| exec_datafusion_err!("there is no category {code}"))?;
    Ok(id.as_deref())
}

/// Interests by what was visited, as of a moment, in the order of the categories' ids. Visits count as frequent from a
/// day on.
pub(crate) fn score_visits(args: &[ColumnarValue]) -> Result<ArrayRef> {
    let constant = |at: usize| match &args[at] {
        ColumnarValue::Scalar(ScalarValue::Int64(Some(value))) => Ok(*value),
        _ => exec_err!("argument {} must be a whole number", at + 1),
    };
    let (now, month, ids) = (constant(1)?, constant(2)?, ids(args, 3)?);
    let packed = column(args, 0)?;
    let mut categories = ListBuilder::new(UInt16Builder::new());
    let mut levels: [ListBuilder<Int32Builder>; 3] = std::array::from_fn(|_| ListBuilder::new(Int32Builder::new()));
    let mut seconds = ListBuilder::new(Float64Builder::new());
    // Two periods: before the month, and since.
    let periods = Periods { first: month, second: month };
    let (mut visits, mut found): (Vec<Visits>, Vec<(&str, Interest)>) = (Vec::new(), Vec::new());
    for bytes in values(packed.as_binary_view()) {
        visits.clear();
        Visits::unpack_all(bytes, &mut visits)?;
        Visits::combine(&mut visits, &periods);
        found.clear();
        for same in visits.chunk_by(|one, other| one.category == other.category) {
            let Some(id) = id(&ids, same[0].category)? else { continue };
            let last = same[same.len() - 1];
            let recent = if periods.of(last.last) == month { last.count } else { 0 };
            let dwell: i64 = same.iter().map(|visits| visits.dwell).sum();
            let timed = same.iter().all(|visits| visits.untimed == 0);
            found.push((
                id,
                Interest {
                    category: u32::from(last.category),
                    recency: recency(now - last.last),
                    frequency: frequency(recent),
                    seconds: timed.then_some(dwell as f64 / DWELL_UNITS),
                },
            ));
        }
        found.sort_unstable_by_key(|(id, _)| *id);
        for (_, interest) in &found {
            categories.values().append_value(interest.category as u16);
            let values = [interest.recency, interest.frequency, interest.score()];
            levels.iter_mut().zip(values).for_each(|(list, value)| list.values().append_value(value as i32));
            seconds.values().append_option(interest.seconds);
        }
        categories.append(true);
        levels.iter_mut().for_each(|list| list.append(true));
        seconds.append(true);
    }
    let DataType::Struct(fields) = interests_type() else { unreachable!("interests are a struct") };
    let [mut recencies, mut frequencies, mut scores] = levels;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(categories.finish()),
        Arc::new(recencies.finish()),
        Arc::new(frequencies.finish()),
        Arc::new(seconds.finish()),
        Arc::new(scores.finish()),
    ];
    Ok(Arc::new(StructArray::new(fields, columns, None)))
}

/// The ids of lists of codes.
pub(crate) fn category_ids(args: &[ColumnarValue]) -> Result<ArrayRef> {
    let ids = ids(args, 1)?;
    let lists = column(args, 0)?;
    let lists = lists.as_list::<i32>();
    let codes = lists.values().as_primitive::<UInt16Type>().values();
    let mut found = ListBuilder::new(StringBuilder::new());
    for bounds in lists.offsets().windows(2) {
        for &code in &codes[bounds[0] as usize..bounds[1] as usize] {
            found.values().append_value(id(&ids, code)?.unwrap_or_default());
        }
        found.append(true);
    }
    Ok(Arc::new(found.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visits(category: u16, last: i64, count: u32, dwell: i64) -> Visits {
        Visits { category, last, count, untimed: count / 2, dwell }
    }

    #[test]
    fn packed_visits_come_back_and_damage_is_noticed() {
        let all = [visits(0, -5, 1, 0), visits(300, 1_790_000_000, 1, 1 << 45), visits(65_535, 7, 9, i64::MAX)];
        let mut bytes = Vec::new();
        all.iter().for_each(|visits| visits.pack(&mut bytes));
        let mut back = Vec::new();
        Visits::unpack_all(&bytes, &mut back).unwrap();
        assert_eq!(back, all);
        assert!(Visits::unpack_all(&bytes[..bytes.len() - 1], &mut back).is_err());
        assert!(Visits::unpack_all(&[0xff; 40], &mut back).is_err());
    }

    #[test]
    fn days_are_told_apart_between_the_two_bounds_only() {
        let periods = Periods { first: 10, second: 12 };
        let mut all: Vec<Visits> = (8..15).rev().map(|day| visits(3, day * DAY + 1, 1, 10)).collect();
        all.push(visits(2, 0, 4, 1));
        Visits::combine(&mut all, &periods);
        let found: Vec<(u16, i64, u32)> = all.iter().map(|one| (one.category, one.last / DAY, one.count)).collect();
        assert_eq!(found, [(2, 0, 4), (3, 9, 2), (3, 10, 1), (3, 11, 1), (3, 14, 3)]);
    }
}
