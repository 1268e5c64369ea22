//! Values of Arrow columns that JSON cannot represent. They must not become nulls or strings. A row with such a value
//! is encoded as invalid JSON, so that it is rejected, with the value.

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

/// Comes before such a value, which ends at the next NUL. JSON does not contain this outside of strings, and its strings
/// contain no bare NUL.
pub(super) const OUTSIDE: &str = "\0outside of JSON\0";

/// A line with its values as they are, or as strings, so that it is JSON.
pub(super) fn shown(line: &str, as_strings: bool) -> String {
    let mut parts = line.split(OUTSIDE);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (value, rest) = part.split_once('\0').unwrap_or(("", part));
        let quote = if as_strings { "\"" } else { "" };
        out.extend([quote, value, quote, rest]);
    }
    out
}

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
        static PLAIN: std::sync::LazyLock<EncoderOptions> = std::sync::LazyLock::new(EncoderOptions::default);
        let nulls = array.nulls().cloned();
        let inner = if doubles {
            NullableEncoder::new(Box::new(Doubles(array.as_primitive())), nulls.clone())
        } else {
            make_encoder(field, array, &PLAIN)?
        };
        if outside.is_empty() {
            return Ok(Some(inner));
        }
        Ok(Some(NullableEncoder::new(Box::new(Watched { inner, outside }), nulls)))
    }
}

struct Watched<'a> {
    inner: NullableEncoder<'a>,
    outside: Outside,
}

impl Encoder for Watched<'_> {
    fn encode(&mut self, position: usize, out: &mut Vec<u8>) {
        match self.outside.binary_search_by_key(&position, |(at, _)| *at) {
            Ok(at) => out.extend_from_slice(format!("{OUTSIDE}{}\0", self.outside[at].1).as_bytes()),
            Err(_) => self.inner.encode(position, out),
        }
    }
}

struct Doubles<'a>(&'a PrimitiveArray<Float64Type>);

impl Encoder for Doubles<'_> {
    fn encode(&mut self, position: usize, out: &mut Vec<u8>) {
        write_double(self.0.value(position), out);
    }
}

/// Positions, ascending, and values that JSON cannot represent.
type Outside = Vec<(usize, String)>;

/// Values that JSON cannot represent.
fn outside(array: &dyn Array) -> Outside {
    match array.data_type() {
        DataType::Float16 => where_not::<Float16Type>(array, |v| v.is_finite()),
        DataType::Float32 => where_not::<Float32Type>(array, |v| v.is_finite()),
        DataType::Float64 => where_not::<Float64Type>(array, |v| v.is_finite()),
        DataType::Date32 => where_not::<Date32Type>(array, |v| as_date::<Date32Type>(v.into()).is_some()),
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

fn times<T: ArrowTemporalType>(array: &dyn Array) -> Outside
where
    i64: From<T::Native>,
{
    where_not::<T>(array, |v| as_time::<T>(v.into()).is_some())
}

fn timestamps<T: ArrowTimestampType>(array: &dyn Array) -> Outside {
    where_not::<T>(array, |v| as_datetime::<T>(v).is_some())
}

/// A time is its number in the unit of its column.
fn where_not<T: ArrowPrimitiveType>(array: &dyn Array, fine: impl Fn(T::Native) -> bool) -> Outside
where
    T::Native: ArrowNativeTypeOp,
{
    let array: &PrimitiveArray<T> = array.as_primitive();
    let is_bad = |position: &usize| array.is_valid(*position) && !fine(array.value(*position));
    (0..array.len()).filter(is_bad).map(|position| (position, format!("{:?}", array.value(position)))).collect()
}
