//! jq expressions that filter, map and merge records.

use std::fmt;

use jaq_core::data::JustLut;
use jaq_core::load::{self, Arena, File, Loader};
use jaq_core::{Compiler, Ctx, Filter, Vars, compile};
use jaq_json::{Val, read, write};
use serde::de::IgnoredAny;

use crate::shape::members::Texts;

/// The deepest nesting passed to jq, which recurses into documents on the stack.
const DEEPEST: usize = 128;

/// Longest accepted expression. Real ones are much shorter.
const LONGEST: usize = 8 << 10;
/// Stack for the deepest expression of that length. Only the used part costs memory.
const STACK_BYTES: usize = 256 << 20;

/// Names that are removed because they would make a copy depend on more than its records.
const LEFT_OUT: [&str; 11] = [
    "env",
    "halt",
    "halt_error",
    "now",
    "debug",
    "debug_empty",
    "stderr",
    "stderr_empty",
    "localtime",
    "strflocaltime",
    "$ENV",
];

/// A compiled jq expression.
pub struct Jq {
    filter: Filter<JustLut<Val>>,
    typed: String,
}

/// An invalid expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}, at character {at} of `{typed}`")]
pub struct JqError {
    typed: String,
    /// From 1.
    at: usize,
    what: String,
}

impl fmt::Debug for Jq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Jq").field(&self.typed).finish()
    }
}

impl fmt::Display for Jq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.typed)
    }
}

impl Jq {
    /// Compiles an expression over one record. `.` is the record as a file would hold it. `$key` is the key it came
    /// with, or null.
    ///
    /// # Errors
    /// What is wrong with the expression, and where.
    pub fn of_record(typed: &str) -> Result<Self, JqError> {
        Self::compile(typed, &["$key"])
    }

    /// Compiles an expression that merges. `.` is the stored document or null, `$new` the record without its key,
    /// `$key` its key.
    ///
    /// # Errors
    /// What is wrong with the expression, and where.
    pub fn of_merge(typed: &str) -> Result<Self, JqError> {
        Self::compile(typed, &["$new", "$key"])
    }

    /// Compiles on a separate, large stack, because the parser is recursive.
    fn compile(typed: &str, variables: &[&str]) -> Result<Self, JqError> {
        let wrong = |what: String| JqError { typed: shorten(typed), at: 1, what };
        if typed.len() > LONGEST {
            return Err(wrong(format!("the expression is longer than {LONGEST} bytes")));
        }
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
            let compiled = thread.spawn_scoped(scope, || Self::compile_here(typed, variables));
            let compiled = compiled.map_err(|e| wrong(format!("cannot start a thread to parse it: {e}")))?;
            compiled.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn compile_here(typed: &str, variables: &[&str]) -> Result<Self, JqError> {
        let known = |name: &str| !LEFT_OUT.contains(&name);
        let definitions = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs()).filter(|d| known(d.name));
        let functions = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs()).filter(|f| known(f.0));
        let arena = Arena::default();
        let wrong = |(found, what): (&str, String)| {
            let at = typed[..load::span(typed, found).start].chars().count() + 1;
            JqError { typed: typed.to_owned(), at, what }
        };
        let modules = Loader::new(definitions)
            .load(&arena, File { code: typed, path: () })
            .map_err(|errors| wrong(first(errors).and_then(of_syntax).unwrap_or((typed, String::new()))))?;
        let filter = Compiler::default()
            .with_funs(functions)
            .with_global_vars(variables.iter().copied())
            .compile(modules)
            .map_err(|errors| wrong(first(errors).map_or((typed, String::new()), of_name)))?;
        Ok(Self { filter, typed: typed.to_owned() })
    }

    /// Whether the first output is neither false nor null.
    ///
    /// # Errors
    /// The error message of jq.
    pub(crate) fn holds(&self, input: Val, variables: impl IntoIterator<Item = Val>) -> Result<bool, String> {
        let mut holds = false;
        self.run(input, variables, &mut |output| {
            holds = !matches!(output, Val::Null | Val::Bool(false));
            Ok(false)
        })?;
        Ok(holds)
    }

    /// The only output, as JSON; `None` if there is none.
    ///
    /// # Errors
    /// The error message of jq, several outputs, or an output that JSON cannot express.
    pub(crate) fn one(&self, input: Val, variables: impl IntoIterator<Item = Val>) -> Result<Option<Vec<u8>>, String> {
        let mut made = None;
        self.run(input, variables, &mut |output| {
            if made.is_some() {
                return Err("several outputs, expected at most one; collect them in a list".to_owned());
            }
            made = Some(text(&output)?);
            Ok(true)
        })?;
        Ok(made)
    }

    /// Merges a record into a stored document, if there is one. Returns the new document as JSON; `None` if it does not
    /// change.
    ///
    /// # Errors
    /// The error message of jq, several outputs, or an output that is not an object.
    pub(crate) fn merge(&self, stored: Option<&str>, new: &str, key: &str) -> Result<Option<Vec<u8>>, String> {
        let stored = stored.map_or(Ok(Val::Null), value).map_err(|e| format!("the stored document: {e}"))?;
        let variables = [value(new)?, text_or_null(Some(key))];
        let mut merged = None;
        self.run(stored.clone(), variables, &mut |output| {
            if merged.replace(output).is_some() {
                return Err("several outputs, expected at most one".to_owned());
            }
            Ok(true)
        })?;
        match merged {
            None => Ok(None),
            Some(merged) if same(&stored, &merged) => Ok(None),
            Some(merged @ Val::Obj(_)) => text(&merged).map(Some),
            Some(_) => Err("the output is not a JSON object, which a document must be".to_owned()),
        }
    }

    /// Passes outputs to `output` until it wants no more.
    fn run(
        &self,
        input: Val,
        variables: impl IntoIterator<Item = Val>,
        output: &mut dyn FnMut(Val) -> Result<bool, String>,
    ) -> Result<(), String> {
        let context = Ctx::<JustLut<Val>>::new(&self.filter.lut, Vars::new(variables));
        for made in self.filter.id.run((context, input)) {
            let made = made.map_err(|e| match e.get_err() {
                Ok(error) => shorten(&error.to_string()),
                Err(_) => "the expression stopped without a result".to_owned(),
            });
            if !output(made?)? {
                break;
            }
        }
        Ok(())
    }
}

/// Whether two values are written alike, apart from the order of members. jq itself treats integers as equal if they
/// round to the same double.
fn same(one: &Val, other: &Val) -> bool {
    match (one, other) {
        (Val::Null, Val::Null) => true,
        (Val::Bool(one), Val::Bool(other)) => one == other,
        (Val::Num(one), Val::Num(other)) => one.to_string() == other.to_string(),
        (Val::TStr(one), Val::TStr(other)) | (Val::BStr(one), Val::BStr(other)) => one == other,
        (Val::Arr(one), Val::Arr(other)) => {
            one.len() == other.len() && one.iter().zip(other.iter()).all(|(one, other)| same(one, other))
        }
        (Val::Obj(one), Val::Obj(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, one)| other.get(name).is_some_and(|other| same(one, other)))
        }
        _ => false,
    }
}

/// The first error of the first file that has one.
fn first<S, P, E>(errors: load::Errors<S, P, E>) -> Option<E> {
    errors.into_iter().next().map(|(_, error)| error)
}

fn of_syntax(error: load::Error<&str>) -> Option<(&str, String)> {
    let (wanted, at) = match error {
        load::Error::Io(errors) => {
            let (at, _) = errors.into_iter().next()?;
            return Some((at, "modules cannot be loaded here".to_owned()));
        }
        load::Error::Lex(errors) => errors.into_iter().next().map(|(wanted, at)| (wanted.as_str(), at))?,
        load::Error::Parse(errors) => errors.into_iter().next().map(|(wanted, at)| (wanted.as_str(), at))?,
    };
    let found = if at.is_empty() { "the end".to_owned() } else { format!("`{}`", shorten(at)) };
    Some((at, format!("expected {wanted}, found {found}")))
}

fn of_name(errors: Vec<compile::Error<&str>>) -> (&str, String) {
    let Some((name, kind)) = errors.into_iter().next() else { return ("", String::new()) };
    let why = if LEFT_OUT.contains(&name) {
        " (not available: a copy may depend only on its records, so that a repeat gives the same result)"
    } else {
        ""
    };
    (name, format!("there is no {} `{name}`{why}", kind.as_str()))
}

/// Converts JSON to a jq value.
///
/// # Errors
/// The JSON is invalid or nests too deep.
pub(crate) fn value(json: &str) -> Result<Val, String> {
    if nests_deeper(json.as_bytes(), DEEPEST) {
        return Err(format!("it nests deeper than {DEEPEST} levels, the limit for jq expressions"));
    }
    read::parse_single(json.as_bytes()).map_err(|e| format!("broken JSON: {e}"))
}

/// A string, or null.
pub(crate) fn text_or_null(text: Option<&str>) -> Val {
    text.map_or(Val::Null, |text| Val::from(text.to_owned()))
}

fn text(value: &Val) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    write::write(&mut out, &write::Pp::default(), 0, value).map_err(|e| e.to_string())?;
    match std::str::from_utf8(&out).map(serde_json::from_str::<IgnoredAny>) {
        Ok(Ok(_)) => Ok(out),
        _ => Err(format!(
            "its output is not JSON (an infinite number or NaN, bytes, or a name that is not text): {}",
            shorten(&String::from_utf8_lossy(&out))
        )),
    }
}

/// Truncates a message: those of jq contain whole documents.
fn shorten(text: &str) -> String {
    const LONGEST: usize = 300;
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    text.chars().take(LONGEST).chain(['…']).collect()
}

/// Whether lists and objects nest deeper than `most` levels.
fn nests_deeper(json: &[u8], most: usize) -> bool {
    let (mut depth, mut texts) = (0_usize, Texts::default());
    json.iter().filter(|byte| texts.is_outside(**byte)).any(|byte| {
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > most
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(expression: &str, json: &str) -> Result<Option<String>, String> {
        let made = Jq::of_record(expression).unwrap().one(value(json)?, [text_or_null(Some("k"))])?;
        Ok(made.map(|made| String::from_utf8(made).unwrap()))
    }

    fn made(expression: &str, json: &str) -> String {
        one(expression, json).unwrap().unwrap()
    }

    #[test]
    fn records_are_kept_by_what_the_first_output_is() {
        let holds = |expression: &str, json: &str| {
            Jq::of_record(expression).unwrap().holds(value(json).unwrap(), [text_or_null(None)])
        };
        for kept in [".n > 1", ".n", "0", "\"\"", "true, error", "[]", "$key == null"] {
            assert_eq!(holds(kept, r#"{"n":2}"#), Ok(true), "{kept}");
        }
        for left in [".n > 2", ".m", "empty", "false, true", "null"] {
            assert_eq!(holds(left, r#"{"n":2}"#), Ok(false), "{left}");
        }
        assert!(holds(".n.x", r#"{"n":2}"#).unwrap_err().contains("cannot index 2"));
    }

    #[test]
    fn numbers_stay_as_they_are_written() {
        let json = r#"{"a":9223372036854775807,"b":-9223372036854775808,"c":18446744073709551615,"d":1e400,"e":7.0,"f":0.1,"g":1E5,"h":123456789012345678901234567890.125}"#;
        assert_eq!(made(".", json), json);
        assert_eq!(made("{a: (.a + 1), c: (.c + 1)}", json), r#"{"a":9223372036854775808,"c":18446744073709551616}"#);
        // Arithmetic with a non-integer gives a double.
        assert_eq!(made("{e: (.e + 1), f: (.f * 3)}", json), r#"{"e":8.0,"f":0.30000000000000004}"#);
        // The only number whose notation changes.
        assert_eq!(made(".", r#"{"n":-0}"#), r#"{"n":0}"#);
    }

    #[test]
    fn of_members_with_one_name_the_last_counts() {
        assert_eq!(made(".", r#"{"a":1,"b":2,"a":3}"#), r#"{"a":3,"b":2}"#);
        assert_eq!(made("{k: $key} + .", r#"{"z":1,"a":"\u00e9"}"#), r#"{"k":"k","z":1,"a":"é"}"#);
    }

    #[test]
    fn a_record_becomes_one_or_none_or_is_told() {
        assert_eq!(one("empty", "{}"), Ok(None));
        assert!(one("., .", "{}").unwrap_err().contains("several outputs"));
        assert!(one("error(\"no \" + $key)", "{}").unwrap_err().contains("no k"));
        for nothing in ["{a: nan}", "{a: infinite}", "{a: (\"x\" | tobytes)}", "{(1 | tostring | tobytes): 1}"] {
            assert!(one(nothing, "{}").unwrap_err().contains("its output is not JSON"), "{nothing}");
        }
        let long = one(".a.b", &format!("{{\"a\":\"{}\"}}", "x".repeat(5_000))).unwrap_err();
        assert!(long.len() < 400, "{long}");
    }

    #[test]
    fn what_is_no_expression_is_told_with_its_place() {
        let error = |typed: &str| Jq::of_record(typed).unwrap_err().to_string();
        assert!(error(".a |").contains("found the end, at character 5"), "{}", error(".a |"));
        assert!(error("\"é\" | .a + §").contains("found `§`, at character 12"), "{}", error("\"é\" | .a + §"));
        assert!(error("(.a").contains("closing parenthesis"), "{}", error("(.a"));
        assert!(
            error(".a + nothing(1)").contains("no filter `nothing`, at character 6"),
            "{}",
            error(".a + nothing(1)")
        );
        assert!(error("$new").contains("no variable `$new`"), "{}", error("$new"));
        assert!(error("include \"x\"; .").contains("modules cannot be loaded"), "{}", error("include \"x\"; ."));
        assert!(Jq::of_merge(".n += $new.n | .k = $key").is_ok());
    }

    #[test]
    fn expressions_that_nest_deep_are_read_or_refused() {
        let work = || {
            for piece in
                ["(", "[", "{a:", "-", ".a|", "if ", "\"\\(", "def f: ", "reduce ", "try ", ".[", "1+", "1,", "..?//"]
            {
                for end in ["", "1", ".", "]"] {
                    let typed = piece.repeat(LONGEST / piece.len() - 1) + end;
                    drop((Jq::of_record(&typed), Jq::of_merge(&typed)));
                }
            }
            let long = Jq::of_record(&" ".repeat(LONGEST + 1)).unwrap_err().to_string();
            assert!(long.contains("longer than"), "{long}");
        };
        // The usual stack size of a main thread.
        std::thread::Builder::new().stack_size(8 << 20).spawn(work).unwrap().join().unwrap();
        // Expressions run on the stack of a copy's thread.
        let deep = |open: &str, close: &str| open.repeat(2_000) + "." + &close.repeat(2_000);
        let run = move || {
            for typed in [deep("(", ")"), deep("[", "]"), deep("1+", ""), deep(".|", ""), deep("try ", "")] {
                let _ = Jq::of_record(&typed).unwrap().one(value("7").unwrap(), [text_or_null(None)]);
            }
        };
        std::thread::Builder::new().stack_size(64 << 20).spawn(run).unwrap().join().unwrap();
    }

    #[test]
    fn nothing_but_the_record_counts() {
        for outside in
            ["env", "$ENV", "now", "halt", "halt_error", "input", "inputs", "input_filename", "debug", "stderr"]
        {
            let error = Jq::of_record(outside).unwrap_err().to_string();
            assert!(error.contains("there is no"), "{outside}: {error}");
        }
    }

    #[test]
    fn what_nests_too_deep_for_the_stack_is_refused() {
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert!(value(&nested(DEEPEST)).is_ok());
        assert!(value(&nested(DEEPEST + 1)).unwrap_err().contains("nests deeper"));
        assert!(value(&nested(1_000_000)).is_err());
        assert!(value(&format!("{{\"a\":\"{}\\\"{}\"}}", "[".repeat(200), "{".repeat(200))).is_ok());
    }

    #[test]
    fn variables_are_what_they_are_called() {
        let merge = Jq::of_merge("{stored: .n, new: $new.n, key: $key}").unwrap();
        let variables = [value(r#"{"n":2}"#).unwrap(), text_or_null(Some("k"))];
        let made = merge.one(value(r#"{"n":1}"#).unwrap(), variables).unwrap().unwrap();
        assert_eq!(made, br#"{"stored":1,"new":2,"key":"k"}"#);
    }

    #[test]
    fn a_merge_that_changes_nothing_is_told_from_one_that_does() {
        let merge = |expression: &str, stored| Jq::of_merge(expression).unwrap().merge(stored, r#"{"n":2}"#, "k");
        let other = |json: &str| Ok(Some(json.as_bytes().to_vec()));
        assert_eq!(merge(".n += $new.n", Some(r#"{"n":1,"m":7.0}"#)), other(r#"{"n":3,"m":7.0}"#));
        assert_eq!(merge(". // {} | .n += $new.n", None), other(r#"{"n":2}"#));
        for same in [".", "empty", "{n, m}", ". + {m: 7.0}", "{b: .b} + ."] {
            assert_eq!(
                merge(same, Some(r#"{"m":7.0,"n":1,"b":null}"#)),
                if same == "{n, m}" { other(r#"{"n":1,"m":7.0}"#) } else { Ok(None) },
                "{same}"
            );
        }
        assert_eq!(merge("if . then . else empty end", None), Ok(None));
        assert_eq!(merge(".", None), Ok(None));
        // Both round to the same double.
        assert_eq!(
            merge(".n = 9007199254740993", Some(r#"{"n":9007199254740992}"#)),
            other(r#"{"n":9007199254740993}"#)
        );
        for (wrong, why) in [(".n", "not a JSON object"), ("., .", "several outputs"), (".n.x", "cannot index")] {
            assert!(merge(wrong, Some(r#"{"n":1}"#)).unwrap_err().contains(why), "{wrong}");
        }
        assert!(merge(".", Some("bytes")).unwrap_err().contains("the stored document: broken JSON"));
    }
}
