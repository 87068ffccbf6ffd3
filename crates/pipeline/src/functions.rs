//! The functions that the plans use. They keep no state: what they need to know comes as an argument, inside the plan,
//! so that a cluster's executors need no files of the driver's.

use crate::pages::{Page, pages_type, unpack_pages};
use crate::visits::{Visits, category_ids, interests_type, score_visits};
use crate::{packed, scorer};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryBuilder, Float32Builder, Int32Array, Int64Array, ListArray, ListBuilder,
    StringBuilder, StructArray,
};
use datafusion::arrow::datatypes::{DataType, Field, Fields, Float32Type, Int32Type, Int64Type};
use datafusion::common::{DataFusionError, HashMap as FastMap, Result, ScalarValue, exec_datafusion_err, exec_err};
use datafusion::logical_expr::{AggregateUDF, ColumnarValue, ScalarUDF, Volatility, create_udf};
use sottovoce_data::interests::{MOST_SECONDS, THRESHOLD};
use sottovoce_text::{Encoder as _, HashedNgrams};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// What time on page is counted in: 2^-30 seconds. Sums of whole numbers do not depend on the order, and for times of
/// 1/64 s and more they are those of the exact values.
pub const DWELL_UNITS: f64 = (1u64 << 30) as f64;

/// What the function `category_codes` knows of a day's log: the codes that each text stands for, `None` if it is
/// sensitive.
pub type CodeMap = HashMap<String, Option<Vec<u16>>>;

/// All functions, to be registered wherever plans are made or run.
pub fn all() -> Vec<Arc<ScalarUDF>> {
    use DataType::{Binary, BinaryView, Float32, Int32, Int64, UInt16, Utf8, Utf8View};
    let list = |kind: DataType| DataType::new_list(kind, true);
    vec![
        function("unix_seconds", vec![Int64, Int64], Int64, unix_seconds),
        function("dwell_units", vec![Float32], Int64, dwell_units),
        function("person_bucket", vec![Utf8View, Int64], Int32, person_bucket),
        function("category_codes", vec![Utf8View, Utf8], Binary, category_codes),
        function("category_ids", vec![list(UInt16), Utf8], list(Utf8), category_ids),
        function("score_visits", vec![BinaryView, Int64, Int64, Utf8], interests_type(), score_visits),
        function("unpack_pages", vec![BinaryView], pages_type(), unpack_pages),
        function("encode_title", vec![Utf8View, Binary], vector(), encode_title),
        function(
            "lookalike_scores",
            vec![list(Utf8), list(Int32), list(vector()), Binary, Float32],
            audiences(),
            lookalike_scores,
        ),
    ]
}

/// All aggregates, likewise.
pub fn all_aggregates() -> Vec<Arc<AggregateUDF>> {
    [packed::aggregates::<Visits>(), packed::aggregates::<Page>()].concat()
}

/// A vector of a title.
pub fn vector() -> DataType {
    DataType::new_list(DataType::Float32, true)
}

/// The categories of a model that a person is likely to care for, with their scores.
pub fn audiences() -> DataType {
    DataType::Struct(Fields::from(vec![
        Field::new("categories", DataType::new_list(DataType::Utf8, true), false),
        Field::new("scores", DataType::new_list(DataType::Float32, true), false),
    ]))
}

fn function(
    name: &str,
    takes: Vec<DataType>,
    gives: DataType,
    run: impl Fn(&[ColumnarValue]) -> Result<ArrayRef> + Send + Sync + 'static,
) -> Arc<ScalarUDF> {
    let run = move |args: &[ColumnarValue]| {
        let scalar = args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let found = run(args)?;
        // Over constants only: the planner folds it.
        match scalar {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?)),
            false => Ok(ColumnarValue::Array(found)),
        }
    };
    Arc::new(create_udf(name, takes, gives, Volatility::Immutable, Arc::new(run)))
}

/// An argument as an array, also where the planner knows that all rows have the same value.
pub(crate) fn column(args: &[ColumnarValue], at: usize) -> Result<ArrayRef> {
    let rows = args.iter().find_map(|arg| match arg {
        ColumnarValue::Array(array) => Some(array.len()),
        ColumnarValue::Scalar(_) => None,
    });
    args[at].to_array(rows.unwrap_or(1))
}

fn constant(args: &[ColumnarValue], at: usize) -> Result<&ScalarValue> {
    match &args[at] {
        ColumnarValue::Scalar(value) => Ok(value),
        ColumnarValue::Array(_) => exec_err!("argument {} must be a constant", at + 1),
    }
}

pub(crate) fn text(args: &[ColumnarValue], at: usize) -> Result<&str> {
    match constant(args, at)?.try_as_str() {
        Some(Some(text)) => Ok(text),
        _ => exec_err!("argument {} must be a text", at + 1),
    }
}

/// Whole seconds of a time in so many units a second; 0: inferred from its size, as where logs are read at once.
fn unix_seconds(args: &[ColumnarValue]) -> Result<ArrayRef> {
    let (times, units) = (column(args, 0)?, column(args, 1)?);
    let units = units.as_primitive::<Int64Type>();
    let convert = |(row, time): (usize, Option<i64>)| {
        let time = time?;
        let unit = match units.value(row) {
            0 => match time.unsigned_abs() {
                0..100_000_000_000 => 1,
                100_000_000_000..100_000_000_000_000 => 1_000,
                100_000_000_000_000..100_000_000_000_000_000 => 1_000_000,
                _ => 1_000_000_000,
            },
            unit => unit,
        };
        Some(time.div_euclid(unit))
    };
    Ok(Arc::new(times.as_primitive::<Int64Type>().iter().enumerate().map(convert).collect::<Int64Array>()))
}

/// Time on page in [`DWELL_UNITS`]; -1 if it is impossible.
fn dwell_units(args: &[ColumnarValue]) -> Result<ArrayRef> {
    let seconds = column(args, 0)?;
    let convert = |seconds: f32| match (0.0..=MOST_SECONDS).contains(&seconds) {
        true => (f64::from(seconds) * DWELL_UNITS).round() as i64,
        false => -1,
    };
    Ok(Arc::new(seconds.as_primitive::<Float32Type>().unary::<_, Int64Type>(convert)))
}

/// In which of so many parts a person's rows are: FNV-1a, whose values are the same everywhere and for ever.
fn person_bucket(args: &[ColumnarValue]) -> Result<ArrayRef> {
    let (people, buckets) = (column(args, 0)?, column(args, 1)?);
    let (people, buckets) = (people.as_string_view(), buckets.as_primitive::<Int64Type>());
    let bucket = |(row, person): (usize, Option<&str>)| {
        let hash = person
            .unwrap_or_default()
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        // The low bits of FNV follow the low bits of the last bytes.
        ((hash ^ (hash >> 32)) % buckets.value(row).max(1) as u64) as i32
    };
    Ok(Arc::new(people.iter().enumerate().map(|row| Some(bucket(row))).collect::<Int32Array>()))
}

/// Something made from a constant argument, which is the same for a whole query.
pub(crate) struct Parsed<T>(Mutex<Vec<(Vec<u8>, Arc<T>)>>);

impl<T> Parsed<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    pub(crate) fn get(&self, source: &[u8], parse: impl FnOnce(&[u8]) -> Result<T>) -> Result<Arc<T>> {
        let mut known = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((_, found)) = known.iter().find(|(text, _)| text == source) {
            return Ok(found.clone());
        }
        let found = Arc::new(parse(source)?);
        known.truncate(3);
        known.insert(0, (source.to_vec(), found.clone()));
        Ok(found)
    }
}

pub(crate) fn json<T: serde::de::DeserializeOwned>(text: &[u8]) -> Result<T> {
    serde_json::from_slice(text).map_err(|error| DataFusionError::External(Box::new(error)))
}

/// The codes of a click's categories, two bytes each, in the order of the log and each once; nothing if one of them is
/// sensitive or none is known.
fn category_codes(args: &[ColumnarValue]) -> Result<ArrayRef> {
    static MAPS: Parsed<CodeMap> = Parsed::new();
    let map = MAPS.get(text(args, 1)?.as_bytes(), json)?;
    let texts = column(args, 0)?;
    let texts = texts.as_string_view();
    let mut found = BinaryBuilder::with_capacity(texts.len(), 4 * texts.len());
    let mut known: FastMap<&str, Option<Vec<u8>>> = FastMap::new();
    for row in texts {
        let row = row.unwrap_or_default();
        let codes = known.entry(row).or_insert_with(|| codes_of(row, &map));
        found.append_option(codes.as_deref());
    }
    Ok(Arc::new(found.finish()))
}

/// The single texts of a click's categories.
pub fn category_texts(all: &str) -> impl Iterator<Item = &str> {
    all.split(['|', ';']).map(str::trim).filter(|text| !text.is_empty())
}

fn codes_of(all: &str, map: &CodeMap) -> Option<Vec<u8>> {
    let mut codes: Vec<u16> = Vec::new();
    for text in category_texts(all) {
        for code in map.get(text)?.as_ref()? {
            if !codes.contains(code) {
                codes.push(*code);
            }
        }
    }
    (!codes.is_empty()).then(|| codes.into_iter().flat_map(u16::to_be_bytes).collect())
}

/// Vectors of titles; the encoder comes as its bytes.
fn encode_title(args: &[ColumnarValue]) -> Result<ArrayRef> {
    static ENCODERS: Parsed<HashedNgrams> = Parsed::new();
    let ScalarValue::Binary(Some(encoder)) = constant(args, 1)? else { return exec_err!("an encoder is needed") };
    let encoder = ENCODERS
        .get(encoder, |bytes| HashedNgrams::from_bytes(bytes).map_err(|error| exec_datafusion_err!("{error}")))?;
    let titles = column(args, 0)?;
    let mut vectors = ListBuilder::new(Float32Builder::with_capacity(titles.len() * encoder.dim()));
    let mut vector = vec![0.0; encoder.dim()];
    for title in titles.as_string_view() {
        encoder.encode(title.unwrap_or_default(), &mut vector);
        vectors.values().append_slice(&vector);
        vectors.append(true);
    }
    Ok(Arc::new(vectors.finish()))
}

/// The lists of a list of numbers.
fn rows_of(vectors: &ListArray) -> Vec<&[f32]> {
    let values = vectors.values().as_primitive::<Float32Type>().values();
    vectors.offsets().windows(2).map(|at| &values[at[0] as usize..at[1] as usize]).collect()
}

/// A model's scores for people, from their interests with the scores of these, and the vectors of their last pages,
/// oldest first; those from a threshold on are kept, the highest first.
fn lookalike_scores(args: &[ColumnarValue]) -> Result<ArrayRef> {
    static MODELS: Parsed<scorer::Model> = Parsed::new();
    let (ScalarValue::Binary(Some(model)), ScalarValue::Float32(Some(threshold))) =
        (constant(args, 3)?, constant(args, 4)?)
    else {
        return exec_err!("a model and a threshold are needed");
    };
    let model =
        MODELS.get(model, |bytes| scorer::Model::parse(bytes).map_err(|error| exec_datafusion_err!("{error:#}")))?;
    let [interests, strengths, pages] = [column(args, 0)?, column(args, 1)?, column(args, 2)?];
    let (interests, strengths, pages): (&ListArray, &ListArray, &ListArray) =
        (interests.as_list(), strengths.as_list(), pages.as_list());
    let mut scores = vec![0.0; model.categories().len()];
    let mut kept = ListBuilder::new(Float32Builder::new());
    let mut names = ListBuilder::new(StringBuilder::new());
    let (mut own, mut best): (Vec<u32>, Vec<usize>) = (Vec::new(), Vec::new());
    for row in 0..interests.len() {
        own.clear();
        if interests.is_valid(row) && strengths.is_valid(row) {
            let (ids, strengths) = (interests.value(row), strengths.value(row));
            let strengths = strengths.as_primitive::<Int32Type>().values();
            let strong = ids.as_string::<i32>().iter().zip(strengths).filter(|(_, score)| **score >= THRESHOLD as i32);
            own.extend(strong.filter_map(|(id, _)| model.number(id?)));
            own.sort_unstable();
        }
        let vectors = pages.is_valid(row).then(|| pages.value(row));
        let vectors = vectors.as_ref().map_or_else(Vec::new, |vectors| rows_of(vectors.as_list()));
        let scored = model.scorer().score(&own, &vectors, &mut scores);
        scored.map_err(|error| exec_datafusion_err!("{error:#}"))?;
        best.clear();
        best.extend((0..scores.len()).filter(|&at| scores[at] >= *threshold));
        best.sort_unstable_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
        for &at in &best {
            names.values().append_value(&model.categories()[at]);
            kept.values().append_value(scores[at]);
        }
        names.append(true);
        kept.append(true);
    }
    let DataType::Struct(fields) = audiences() else { unreachable!("audiences are a struct") };
    Ok(Arc::new(StructArray::new(fields, vec![Arc::new(names.finish()), Arc::new(kept.finish())], None)))
}
