//! The functions that the plans use. They keep no state: what they need to know comes as an argument, inside the plan,
//! so that a cluster's executors need no files of the driver's.

use crate::scorer;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryBuilder, Float32Builder, Int32Array, Int64Array, ListArray, ListBuilder,
    StringArray, StringBuilder, StructArray, UInt16Builder,
};
use datafusion::arrow::datatypes::{
    DataType, Field, Fields, Float32Type, Float64Type, Int32Type, Int64Type, UInt16Type,
};
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_datafusion_err, exec_err};
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};
use sottovoce_data::interests::{Interest, MOST_SECONDS, frequency, recency};
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
    use DataType::{Binary, Float32, Float64, Int32, Int64, Utf8};
    let codes = || DataType::new_list(DataType::UInt16, true);
    vec![
        function("unix_seconds", vec![Int64, Int64], Int64, unix_seconds),
        function("dwell_units", vec![Float32], Int64, dwell_units),
        function("person_bucket", vec![Utf8, Int64], Int32, person_bucket),
        function("category_codes", vec![Utf8, Utf8], Binary, category_codes),
        function("unpack_codes", vec![Binary], codes(), unpack_codes),
        function("category_id", vec![DataType::UInt16, Utf8], Utf8, category_id),
        function("recency_level", vec![Int64], Int32, |args| map_i64(args, |ago| recency(ago) as i32)),
        function("frequency_level", vec![Int64], Int32, |args| {
            map_i64(args, |visits| frequency(u32::try_from(visits).unwrap_or(u32::MAX)) as i32)
        }),
        function("interest_score", vec![Int32, Int32, Float64], Int32, interest_score),
        function("encode_title", vec![Utf8, Binary], vector(), encode_title),
        function(
            "lookalike_scores",
            vec![DataType::new_list(Utf8, true), DataType::new_list(vector(), true), Binary, Float32],
            audiences(),
            lookalike_scores,
        ),
    ]
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

/// The first column of the arguments as an array.
fn column(args: &[ColumnarValue], at: usize) -> Result<ArrayRef> {
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

fn text(args: &[ColumnarValue], at: usize) -> Result<&str> {
    match constant(args, at)?.try_as_str() {
        Some(Some(text)) => Ok(text),
        _ => exec_err!("argument {} must be a text", at + 1),
    }
}

fn map_i64(args: &[ColumnarValue], run: impl Fn(i64) -> i32) -> Result<ArrayRef> {
    let values = column(args, 0)?;
    Ok(Arc::new(values.as_primitive::<Int64Type>().unary::<_, Int32Type>(run)))
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
    let (people, buckets) = (people.as_string::<i32>(), buckets.as_primitive::<Int64Type>());
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
struct Parsed<T>(Mutex<Vec<(Vec<u8>, Arc<T>)>>);

impl<T> Parsed<T> {
    const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    fn get(&self, source: &[u8], parse: impl FnOnce(&[u8]) -> Result<T>) -> Result<Arc<T>> {
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

fn json<T: serde::de::DeserializeOwned>(text: &[u8]) -> Result<T> {
    serde_json::from_slice(text).map_err(|error| DataFusionError::External(Box::new(error)))
}

/// The codes of a click's categories, two bytes each, in the order of the log and each once; nothing if one of them is
/// sensitive or none is known.
fn category_codes(args: &[ColumnarValue]) -> Result<ArrayRef> {
    static MAPS: Parsed<CodeMap> = Parsed::new();
    let map = MAPS.get(text(args, 1)?.as_bytes(), json)?;
    let texts = column(args, 0)?;
    let texts: &StringArray = texts.as_string();
    let mut found = BinaryBuilder::with_capacity(texts.len(), 4 * texts.len());
    let mut known: HashMap<&str, Option<Vec<u8>>> = HashMap::new();
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

fn unpack_codes(args: &[ColumnarValue]) -> Result<ArrayRef> {
    let packed = column(args, 0)?;
    let mut lists = ListBuilder::new(UInt16Builder::new());
    for codes in packed.as_binary::<i32>() {
        for code in codes.unwrap_or_default().as_chunks::<2>().0 {
            lists.values().append_value(u16::from_be_bytes(*code));
        }
        lists.append(true);
    }
    Ok(Arc::new(lists.finish()))
}

/// The id of a code.
fn category_id(args: &[ColumnarValue]) -> Result<ArrayRef> {
    static IDS: Parsed<Vec<String>> = Parsed::new();
    let ids = IDS.get(text(args, 1)?.as_bytes(), json)?;
    let codes = column(args, 0)?;
    let mut found = StringBuilder::new();
    for code in codes.as_primitive::<UInt16Type>() {
        let id = code.map(|code| ids.get(usize::from(code)).ok_or_else(|| exec_datafusion_err!("no category {code}")));
        found.append_option(id.transpose()?);
    }
    Ok(Arc::new(found.finish()))
}

fn interest_score(args: &[ColumnarValue]) -> Result<ArrayRef> {
    let [recencies, frequencies, seconds] = [column(args, 0)?, column(args, 1)?, column(args, 2)?];
    let (recencies, frequencies) = (recencies.as_primitive::<Int32Type>(), frequencies.as_primitive::<Int32Type>());
    let rows = recencies.values().iter().zip(frequencies.values()).zip(seconds.as_primitive::<Float64Type>());
    let score = rows.map(|((&recency, &frequency), seconds)| {
        let [recency, frequency] = [recency, frequency].map(|level| level as u32);
        Some(Interest { category: 0, recency, frequency, seconds }.score() as i32)
    });
    Ok(Arc::new(score.collect::<Int32Array>()))
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
    for title in titles.as_string::<i32>() {
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

/// A model's scores for people, from their interests and the vectors of their last pages, oldest first; those from a
/// threshold on are kept, the highest first.
fn lookalike_scores(args: &[ColumnarValue]) -> Result<ArrayRef> {
    static MODELS: Parsed<scorer::Model> = Parsed::new();
    let (ScalarValue::Binary(Some(model)), ScalarValue::Float32(Some(threshold))) =
        (constant(args, 2)?, constant(args, 3)?)
    else {
        return exec_err!("a model and a threshold are needed");
    };
    let model =
        MODELS.get(model, |bytes| scorer::Model::parse(bytes).map_err(|error| exec_datafusion_err!("{error:#}")))?;
    let (interests, pages) = (column(args, 0)?, column(args, 1)?);
    let (interests, pages): (&ListArray, &ListArray) = (interests.as_list(), pages.as_list());
    let mut scores = vec![0.0; model.categories().len()];
    let mut kept = ListBuilder::new(Float32Builder::new());
    let mut names = ListBuilder::new(StringBuilder::new());
    for row in 0..interests.len() {
        let own = interests.is_valid(row).then(|| interests.value(row));
        let own = own.iter().flat_map(AsArray::as_string::<i32>).flatten();
        let own: Vec<u32> = own.filter_map(|id| model.number(id)).collect();
        let vectors = pages.is_valid(row).then(|| pages.value(row));
        let vectors = vectors.as_ref().map_or_else(Vec::new, |vectors| rows_of(vectors.as_list()));
        model.scorer().score(&own, &vectors, &mut scores);
        let mut best: Vec<usize> = (0..scores.len()).filter(|&at| scores[at] >= *threshold).collect();
        best.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
        for at in best {
            names.values().append_value(&model.categories()[at]);
            kept.values().append_value(scores[at]);
        }
        names.append(true);
        kept.append(true);
    }
    let DataType::Struct(fields) = audiences() else { unreachable!("audiences are a struct") };
    Ok(Arc::new(StructArray::new(fields, vec![Arc::new(names.finish()), Arc::new(kept.finish())], None)))
}
