//! Aggregates that leave one row for each person: what a person has visited, and the pages read last.
//!
//! What is known of a person is one binary value. A table then has one row for each person instead of one for each
//! category or page, so that a day's join, sort and file are as long as the number of people who were active, however
//! much is known of each.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, BinaryViewBuilder, BooleanArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, exec_err, not_impl_err};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};
use datafusion::physical_expr::expressions::Literal;
use std::fmt::Debug;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;

/// What is known of a person, piece by piece. Any order of pieces must give the same bytes.
pub(crate) trait Piece: Clone + Debug + Send + Sync + Sized + 'static {
    /// What tells pieces apart; from the constants that follow the columns.
    type Rule: Clone + Send + Sync;

    /// Names of the aggregate over clicks, and of the one over packed pieces.
    const NAMES: [&'static str; 2];

    /// Columns of clicks that pieces are made from.
    fn columns() -> Vec<DataType>;

    /// The number of constants, all of them whole numbers, and their meaning.
    const CONSTANTS: usize;
    fn rule(constants: &[i64]) -> Self::Rule;

    /// Hands over the pieces of a batch of clicks, each with its row.
    fn of_clicks(columns: &[ArrayRef], each: &mut dyn FnMut(usize, Self)) -> Result<()>;

    /// Puts pieces together that belong together, and in order.
    fn combine(all: &mut Vec<Self>, rule: &Self::Rule);

    fn pack(&self, into: &mut Vec<u8>);

    /// Takes one from the front; `None` if these are not the bytes of one.
    fn unpack(bytes: &mut &[u8]) -> Option<Self>;

    /// All pieces of a packed value.
    fn unpack_all(mut bytes: &[u8], into: &mut Vec<Self>) -> Result<()> {
        while !bytes.is_empty() {
            into.push(Self::unpack(&mut bytes).ok_or_else(|| exec_datafusion_err!("{}: damaged", Self::NAMES[1]))?);
        }
        Ok(())
    }
}

/// Both aggregates of a kind of pieces.
pub(crate) fn aggregates<P: Piece>() -> [Arc<AggregateUDF>; 2] {
    [true, false].map(|of_clicks| Arc::new(AggregateUDF::new_from_impl(Packing::<P>::new(of_clicks))))
}

struct Packing<P> {
    of_clicks: bool,
    signature: Signature,
    pieces: PhantomData<P>,
}

impl<P: Piece> Packing<P> {
    fn new(of_clicks: bool) -> Self {
        let mut takes = if of_clicks { P::columns() } else { vec![DataType::BinaryView] };
        takes.extend(vec![DataType::Int64; P::CONSTANTS]);
        Self { of_clicks, signature: Signature::exact(takes, Volatility::Immutable), pieces: PhantomData }
    }

    /// The constants, which every executor finds in its plan.
    fn rule(args: &AccumulatorArgs<'_>) -> Result<P::Rule> {
        let first = args.exprs.len().saturating_sub(P::CONSTANTS);
        let constants = args.exprs[first..].iter().map(|expression| match expression.downcast_ref::<Literal>() {
            Some(literal) => match literal.value() {
                ScalarValue::Int64(Some(value)) => Ok(*value),
                other => exec_err!("expected a whole number, found {other}"),
            },
            None => exec_err!("the last arguments must be constants"),
        });
        Ok(P::rule(&constants.collect::<Result<Vec<i64>>>()?))
    }
}

impl<P: Piece> Debug for Packing<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl<P: Piece> PartialEq for Packing<P> {
    fn eq(&self, other: &Self) -> bool {
        self.of_clicks == other.of_clicks
    }
}

impl<P: Piece> Eq for Packing<P> {}

impl<P: Piece> Hash for Packing<P> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl<P: Piece> AggregateUDFImpl for Packing<P> {
    fn name(&self) -> &str {
        P::NAMES[usize::from(!self.of_clicks)]
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::BinaryView)
    }

    fn is_nullable(&self) -> bool {
        false
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        not_impl_err!("{} needs a GROUP BY", self.name())
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        let rule = Self::rule(&args)?;
        Ok(Box::new(Groups::<P> { of_clicks: self.of_clicks, rule, people: Vec::new(), bytes: 0 }))
    }
}

/// What is known so far, by group.
struct Groups<P: Piece> {
    of_clicks: bool,
    rule: P::Rule,
    people: Vec<Vec<P>>,
    bytes: usize,
}

/// Pieces of a person that are gathered before they are combined for the first time.
const FIRST: usize = 4;

impl<P: Piece> Groups<P> {
    fn push(&mut self, group: usize, piece: P) {
        let pieces = &mut self.people[group];
        if pieces.len() == pieces.capacity() {
            let before = pieces.capacity();
            if before > 0 {
                P::combine(pieces, &self.rule);
            }
            // Combining must pay: otherwise the same pieces would be sorted again and again.
            if pieces.len() * 2 > before {
                pieces.reserve_exact(before.max(FIRST));
            }
            self.bytes += (pieces.capacity() - before) * size_of::<P>();
        }
        pieces.push(piece);
    }

    fn merge(&mut self, packed: &ArrayRef, groups: &[usize]) -> Result<()> {
        let packed = packed.as_binary_view();
        for (row, &group) in groups.iter().enumerate().filter(|(row, _)| packed.is_valid(*row)) {
            let mut bytes = packed.value(row);
            while !bytes.is_empty() {
                let piece = P::unpack(&mut bytes);
                self.push(group, piece.ok_or_else(|| exec_datafusion_err!("{}: damaged", P::NAMES[1]))?);
            }
        }
        Ok(())
    }

    fn resize(&mut self, groups: usize) {
        self.bytes += groups.saturating_sub(self.people.len()) * size_of::<Vec<P>>();
        self.people.resize_with(groups.max(self.people.len()), Vec::new);
    }
}

fn packed<P: Piece>(people: impl Iterator<Item = Vec<P>>, rule: &P::Rule) -> ArrayRef {
    let (mut built, mut bytes) = (BinaryViewBuilder::new(), Vec::new());
    for mut pieces in people {
        P::combine(&mut pieces, rule);
        bytes.clear();
        pieces.iter().for_each(|piece| piece.pack(&mut bytes));
        built.append_value(&bytes);
    }
    Arc::new(built.finish())
}

impl<P: Piece> GroupsAccumulator for Groups<P> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        if filter.is_some() {
            return not_impl_err!("{}: FILTER", P::NAMES[0]);
        }
        self.resize(total);
        match self.of_clicks {
            true => P::of_clicks(values, &mut |row, piece| self.push(groups[row], piece)),
            false => self.merge(&values[0], groups),
        }
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let people = emit.take_needed(&mut self.people);
        let size = |pieces: &Vec<P>| size_of::<Vec<P>>() + pieces.capacity() * size_of::<P>();
        self.bytes = self.bytes.saturating_sub(people.iter().map(size).sum());
        Ok(packed(people.into_iter(), &self.rule))
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit)?])
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.resize(total);
        self.merge(&values[0], groups)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        if filter.is_some() {
            return not_impl_err!("{}: FILTER", P::NAMES[0]);
        }
        if !self.of_clicks {
            return Ok(vec![values[0].clone()]);
        }
        let (mut built, mut bytes, mut done) = (BinaryViewBuilder::new(), Vec::new(), 0);
        P::of_clicks(values, &mut |row, piece| {
            // The pieces of a row come one after the other.
            while done < row {
                built.append_value(&bytes);
                bytes.clear();
                done += 1;
            }
            piece.pack(&mut bytes);
        })?;
        while done < values[0].len() {
            built.append_value(&bytes);
            bytes.clear();
            done += 1;
        }
        Ok(vec![Arc::new(built.finish())])
    }

    fn size(&self) -> usize {
        self.bytes
    }
}

/// The packed values of a column; nothing where there is none.
pub(crate) fn values(packed: &BinaryViewArray) -> impl Iterator<Item = &[u8]> {
    packed.iter().map(Option::unwrap_or_default)
}

/// A whole number in as few bytes as it needs, seven bits each.
pub(crate) fn put(mut value: u64, into: &mut Vec<u8>) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

/// Takes what [`put`] wrote.
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let (mut value, mut shift) = (0u64, 0);
    loop {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(value);
        }
        shift += 7;
    }
}

/// A number of either sign as one that is small if it is near 0.
pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// What [`zigzag`] was given.
pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}
