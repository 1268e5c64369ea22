//! Validates a document against a JSON Schema (draft 2020-12). It supports the keywords that Storebench's schemas use.
//! An unsupported keyword is a fault, so that nothing passes unchecked.

use serde_json::{Map, Value};

/// Keywords that do not restrict documents.
const SILENT: [&str; 7] = ["$schema", "$defs", "title", "description", "default", "format", "examples"];

/// The faults of a document, each with its place. Empty if the document is valid.
pub fn faults(schema: &Value, document: &Value) -> Vec<String> {
    let mut check = Check { root: schema, faults: Vec::new() };
    check.value(schema, document, "");
    check.faults
}

struct Check<'a> {
    root: &'a Value,
    faults: Vec<String>,
}

impl<'a> Check<'a> {
    fn fault(&mut self, place: &str, what: impl Into<String>) {
        let place = if place.is_empty() { "the document" } else { place };
        self.faults.push(format!("{place}: {}", what.into()));
    }

    fn fits(&self, schema: &'a Value, value: &Value) -> bool {
        let mut check = Check { root: self.root, faults: Vec::new() };
        check.value(schema, value, "");
        check.faults.is_empty()
    }

    fn value(&mut self, schema: &'a Value, value: &Value, place: &str) {
        let schema = match schema {
            Value::Bool(true) => return,
            Value::Object(schema) => schema,
            _ => return self.fault(place, "no value is valid here"),
        };
        for (keyword, wanted) in schema {
            self.keyword(schema, keyword, wanted, value, place);
        }
    }

    fn keyword(
        &mut self,
        schema: &'a Map<String, Value>,
        keyword: &str,
        wanted: &'a Value,
        value: &Value,
        place: &str,
    ) {
        let number = || wanted.as_f64().unwrap_or(f64::NAN);
        let count = || wanted.as_u64().map_or(usize::MAX, |count| count as usize);
        let schemas = || wanted.as_array().map_or(&[][..], Vec::as_slice);
        let ok = match keyword {
            "$ref" => {
                let name = wanted.as_str().and_then(|text| text.strip_prefix('#'));
                return match name.and_then(|name| self.root.pointer(name)) {
                    Some(schema) => self.value(schema, value, place),
                    None => self.fault(place, format!("the schema has no {wanted}")),
                };
            }
            "type" => match wanted {
                Value::Array(types) => types.iter().any(|of| is_of(of, value)),
                of => is_of(of, value),
            },
            "const" => value == wanted,
            "enum" => schemas().contains(value),
            "anyOf" => schemas().iter().any(|schema| self.fits(schema, value)),
            "oneOf" => schemas().iter().filter(|schema| self.fits(schema, value)).count() == 1,
            "minimum" => value.as_f64().is_none_or(|value| value >= number()),
            "maximum" => value.as_f64().is_none_or(|value| value <= number()),
            "exclusiveMinimum" => value.as_f64().is_none_or(|value| value > number()),
            "minItems" => value.as_array().is_none_or(|items| items.len() >= count()),
            "maxItems" => value.as_array().is_none_or(|items| items.len() <= count()),
            "pattern" => value.as_str().is_none_or(|text| {
                wanted.as_str().and_then(|pattern| regex::Regex::new(pattern).ok()).is_some_and(|p| p.is_match(text))
            }),
            "required" => {
                let names = schemas().iter().filter_map(Value::as_str);
                let missing: Vec<&str> =
                    names.filter(|name| value.as_object().is_some_and(|of| !of.contains_key(*name))).collect();
                return missing.iter().for_each(|name| self.fault(place, format!("`{name}` is missing")));
            }
            "properties" => {
                for (name, schema) in wanted.as_object().into_iter().flatten() {
                    if let Some(member) = value.get(name) {
                        self.value(schema, member, &format!("{place}/{name}"));
                    }
                }
                true
            }
            "additionalProperties" => {
                let known = schema.get("properties").and_then(Value::as_object);
                for (name, member) in value.as_object().into_iter().flatten() {
                    if known.is_none_or(|known| !known.contains_key(name)) {
                        self.value(wanted, member, &format!("{place}/{name}"));
                    }
                }
                true
            }
            "items" | "prefixItems" => {
                let first = schema.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len);
                for (at, item) in value.as_array().into_iter().flatten().enumerate() {
                    let schema = if keyword == "items" { Some(wanted).filter(|_| at >= first) } else { wanted.get(at) };
                    if let Some(schema) = schema {
                        self.value(schema, item, &format!("{place}/{at}"));
                    }
                }
                true
            }
            word if SILENT.contains(&word) => true,
            word => return self.fault(place, format!("unsupported keyword `{word}`")),
        };
        if !ok {
            let text: String = value.to_string().chars().take(200).collect();
            self.fault(place, format!("{text} does not fit `{keyword}`: {wanted}"));
        }
    }
}

fn is_of(name: &Value, value: &Value) -> bool {
    match name.as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("string") => value.is_string(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        Some("number") => value.is_number(),
        Some("integer") => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_keyword_refuses_what_does_not_fit() {
        let schema = json!({
            "$defs": {"Short": {"type": "string", "pattern": "^[a-z]+$"}},
            "type": "object",
            "properties": {
                "name": {"$ref": "#/$defs/Short"},
                "count": {"type": ["integer", "null"], "minimum": 0, "maximum": 9},
                "share": {"type": "number", "exclusiveMinimum": 0},
                "pair": {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "integer"}, "minItems": 2, "maxItems": 3},
                "kind": {"oneOf": [{"const": "a"}, {"const": "b"}]},
                "any": {"anyOf": [{"type": "null"}, {"enum": [1, 2]}]},
            },
            "required": ["name"],
            "additionalProperties": false,
        });
        let good = json!({"name": "a", "count": 3, "share": 0.5, "pair": ["x", 1], "kind": "b", "any": 2});
        assert_eq!(faults(&schema, &good), Vec::<String>::new());
        for (name, value) in [
            ("name", json!("A")),
            ("name", json!(1)),
            ("count", json!(-1)),
            ("count", json!(10)),
            ("count", json!(1.5)),
            ("share", json!(0)),
            ("pair", json!(["x"])),
            ("pair", json!([1, 1])),
            ("pair", json!(["x", "y"])),
            ("pair", json!(["x", 1, 1, 1])),
            ("kind", json!("c")),
            ("any", json!(3)),
            ("other", json!(1)),
        ] {
            let mut bad = good.clone();
            bad[name] = value.clone();
            let found = faults(&schema, &bad);
            assert!(!found.is_empty() && found[0].contains(name), "{name} {value}: {found:?}");
        }
        assert_eq!(faults(&schema, &json!({})), ["the document: `name` is missing"]);
        assert_eq!(faults(&json!({"multipleOf": 2}), &json!(2)), ["the document: unsupported keyword `multipleOf`"]);
        assert_eq!(faults(&json!({"$ref": "#/$defs/X"}), &json!(2)).len(), 1);
    }
}
