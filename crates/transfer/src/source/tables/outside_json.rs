//! Values of Arrow columns that JSON cannot represent. They must not become nulls or strings. A row with such a value
//! is encoded as invalid JSON, so that it is rejected.

use arrow_array::cast::AsArray;
use arrow_array::temporal_conversions::{as_date, as_datetime, as_time};
use arrow_array::types::{
    ArrowPrimitiveType, ArrowTemporalType, ArrowTimestampType, Date32Type, Date64Type, Float16Type, Float32Type,
    Float64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{Array, ArrowNativeTypeOp, PrimitiveArray};
use arrow_json::writer::{Encoder, EncoderFactory, EncoderOptions, NullableEncoder, make_encoder};
use arrow_schema::{ArrowError, DataType, FieldRef, TimeUnit};

use crate::columns::write_double;

/// JSON does not contain this outside of strings, and its strings contain no bare NUL.
pub(super) const OUTSIDE: &str = "\0outside of JSON\0";

/// Whether a line contains such a value.
pub(super) fn is_outside(line: &str) -> bool {
    line.contains(OUTSIDE)
}

/// Encodes such values.
#[derive(Debug)]
pub(super) struct OutsideJson {
    /// Whether doubles without a fraction are written as integers, as in files that Storebench wrote.
    pub(super) whole_as_integers: bool,
}

impl EncoderFactory for OutsideJson {
    fn make_default_encoder<'a>(
        &self,
        field: &'a FieldRef,
        array: &'a dyn Array,
        _: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        let outside = outside(array);
        let doubles = self.whole_as_integers && array.data_type() == &DataType::Float64;
        if outside.is_empty() && !doubles {
            return Ok(None);
        }
        if doubles {
            let (values, nulls) = (array.as_primitive::<Float64Type>(), array.nulls().cloned());
            return Ok(Some(NullableEncoder::new(Box::new(Doubles { values, outside }), nulls)));
        }
        static PLAIN: std::sync::LazyLock<EncoderOptions> = std::sync::LazyLock::new(EncoderOptions::default);
        let inner = make_encoder(field, array, &PLAIN)?;
        let nulls = array.nulls().cloned();
        Ok(Some(NullableEncoder::new(Box::new(Watched { inner, outside }), nulls)))
    }
}

struct Watched<'a> {
    inner: NullableEncoder<'a>,
    /// Positions, ascending.
    outside: Vec<usize>,
}

impl Encoder for Watched<'_> {
    fn encode(&mut self, position: usize, out: &mut Vec<u8>) {
        if self.outside.binary_search(&position).is_ok() {
            out.extend_from_slice(OUTSIDE.as_bytes());
        } else {
            self.inner.encode(position, out);
        }
    }
}

struct Doubles<'a> {
    values: &'a PrimitiveArray<Float64Type>,
    /// Positions, ascending.
    outside: Vec<usize>,
}

impl Encoder for Doubles<'_> {
    fn encode(&mut self, position: usize, out: &mut Vec<u8>) {
        if self.outside.binary_search(&position).is_ok() {
            out.extend_from_slice(OUTSIDE.as_bytes());
        } else {
            write_double(self.values.value(position), out);
        }
    }
}

/// Positions of values that JSON cannot represent.
fn outside(array: &dyn Array) -> Vec<usize> {
    match array.data_type() {
        DataType::Float16 => where_not::<Float16Type>(array, |v| v.is_finite()),
        DataType::Float32 => where_not::<Float32Type>(array, |v| v.is_finite()),
        DataType::Float64 => where_not::<Float64Type>(array, |v| v.is_finite()),
        DataType::Date32 => dates::<Date32Type>(array),
        DataType::Date64 => where_not::<Date64Type>(array, |v| as_datetime::<Date64Type>(v).is_some()),
        DataType::Time32(TimeUnit::Second) => times::<Time32SecondType>(array),
        DataType::Time32(_) => times::<Time32MillisecondType>(array),
        DataType::Time64(TimeUnit::Microsecond) => times::<Time64MicrosecondType>(array),
        DataType::Time64(_) => times::<Time64NanosecondType>(array),
        DataType::Timestamp(TimeUnit::Second, _) => timestamps::<TimestampSecondType>(array),
        DataType::Timestamp(TimeUnit::Millisecond, _) => timestamps::<TimestampMillisecondType>(array),
        DataType::Timestamp(TimeUnit::Microsecond, _) => timestamps::<TimestampMicrosecondType>(array),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => timestamps::<TimestampNanosecondType>(array),
        _ => Vec::new(),
    }
}

fn dates<T: ArrowTemporalType>(array: &dyn Array) -> Vec<usize>
where
    i64: From<T::Native>,
{
    where_not::<T>(array, |v| as_date::<T>(v.into()).is_some())
}

fn times<T: ArrowTemporalType>(array: &dyn Array) -> Vec<usize>
where
    i64: From<T::Native>,
{
    where_not::<T>(array, |v| as_time::<T>(v.into()).is_some())
}

fn timestamps<T: ArrowTimestampType>(array: &dyn Array) -> Vec<usize> {
    where_not::<T>(array, |v| as_datetime::<T>(v).is_some())
}

fn where_not<T: ArrowPrimitiveType>(array: &dyn Array, fine: impl Fn(T::Native) -> bool) -> Vec<usize>
where
    T::Native: ArrowNativeTypeOp,
{
    let array: &PrimitiveArray<T> = array.as_primitive();
    let is_bad = |position: &usize| array.is_valid(*position) && !fine(array.value(*position));
    (0..array.len()).filter(is_bad).collect()
}
