//! Values of files that may be written in several ways: `50`, `"50k"`, `{ weight = 50 }`.

use std::fmt::Display;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error, MapAccess, SeqAccess};

/// Implements `Deserialize` for a type that can be written in these forms, each with a function that converts it. The
/// forms are `number`, `whole` (a non-negative integer), `text`, `list`, `table` (another type, which is read first)
/// and `fields` (the type itself, which the function reads from a deserializer). Errors only need `Display`.
macro_rules! written_as {
    ($type:ty, $expecting:expr, $($form:ident = $read:expr),+ $(,)?) => {
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct V;
                impl<'de> serde::de::Visitor<'de> for V {
                    type Value = $type;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str($expecting)
                    }
                    $($crate::written::form!($form, $type, $expecting, $read);)+
                }
                deserializer.deserialize_any(V)
            }
        }
    };
}

macro_rules! form {
    (number, $type:ty, $expecting:expr, $read:expr) => {
        fn visit_f64<E: serde::de::Error>(self, n: f64) -> Result<$type, E> {
            $crate::written::read(n, $read)
        }
        fn visit_i64<E: serde::de::Error>(self, n: i64) -> Result<$type, E> {
            self.visit_f64(n as f64)
        }
        fn visit_u64<E: serde::de::Error>(self, n: u64) -> Result<$type, E> {
            self.visit_f64(n as f64)
        }
    };
    (whole, $type:ty, $expecting:expr, $read:expr) => {
        fn visit_u64<E: serde::de::Error>(self, n: u64) -> Result<$type, E> {
            $crate::written::read(n, $read)
        }
        fn visit_i64<E: serde::de::Error>(self, n: i64) -> Result<$type, E> {
            match u64::try_from(n) {
                Ok(n) => self.visit_u64(n),
                Err(_) => Err(E::custom(format!("{n} is negative; expected {}", $expecting))),
            }
        }
    };
    (text, $type:ty, $expecting:expr, $read:expr) => {
        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$type, E> {
            $crate::written::read(text, $read)
        }
    };
    (list, $type:ty, $expecting:expr, $read:expr) => {
        fn visit_seq<A: serde::de::SeqAccess<'de>>(self, seq: A) -> Result<$type, A::Error> {
            $crate::written::list(seq, $read)
        }
    };
    (table, $type:ty, $expecting:expr, $read:expr) => {
        fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<$type, A::Error> {
            $crate::written::table(map, $read)
        }
    };
    (fields, $type:ty, $expecting:expr, $read:expr) => {
        fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<$type, A::Error> {
            $read(serde::de::value::MapAccessDeserializer::new(map))
        }
    };
}

/// Implements `JsonSchema` for a type that reads and writes itself: its name in the schema, and what may be written for it.
macro_rules! schema {
    ($type:ty, $name:expr, |$generator:tt| $schema:expr) => {
        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }
            fn json_schema($generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $schema
            }
        }
    };
}

/// Defines, only for the schema, what may be written for a type: one of these forms.
macro_rules! wire {
    ($(#[$about:meta])* $visible:vis $name:ident: $($(#[$doc:meta])* $form:ident($($of:ty),+)),+ $(,)?) => {
        $(#[$about])*
        #[cfg(feature = "schema")]
        #[derive(schemars::JsonSchema)]
        #[serde(untagged)]
        #[allow(dead_code)]
        $visible enum $name { $($(#[$doc])* $form($($of),+)),+ }
    };
}

/// Gives the variants of an enum the names that files, tables and results use.
#[macro_export]
#[doc(hidden)]
macro_rules! names {
    ($type:ident: $($kind:ident $name:literal),+ $(,)?) => {
        impl $type {
            /// All variants, in the order in which tables show them.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$kind),+];

            /// The name in files, tables and results.
            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $name),+ }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

pub(crate) use {form, names, schema, wire, written_as};

/// Whether a value is the default, so that it need not be written.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

pub(crate) fn read<I, T, X: Display, E: Error>(given: I, of: impl FnOnce(I) -> Result<T, X>) -> Result<T, E> {
    of(given).map_err(E::custom)
}

pub(crate) fn list<'de, A: SeqAccess<'de>, I: Deserialize<'de>, T, X: Display>(
    seq: A,
    of: impl FnOnce(I) -> Result<T, X>,
) -> Result<T, A::Error> {
    read(I::deserialize(SeqAccessDeserializer::new(seq))?, of)
}

pub(crate) fn table<'de, A: MapAccess<'de>, I: Deserialize<'de>, T, X: Display>(
    map: A,
    of: impl FnOnce(I) -> Result<T, X>,
) -> Result<T, A::Error> {
    read(I::deserialize(MapAccessDeserializer::new(map))?, of)
}
