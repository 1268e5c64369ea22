//! Factors: settings of a study, the values of each, and the combinations of values that a design makes.

use std::path::Path;

use indexmap::IndexMap;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::check::{Problems, did_you_mean, no_such};
use super::errors::StudyErrors;
use super::load::Override;
use super::study::Study;

/// The most combinations of values that one study may have.
const MOST_COMBINATIONS: usize = 10_000;
/// The most trials of one run: more would take years.
const MOST_TRIALS: usize = 1_000_000;
/// Keys of a study that no factor can vary: they describe the study, not a configuration.
const FIXED: [&str; 16] = [
    "title",
    "question",
    "seed",
    "repeats",
    "repeat",
    "control",
    "factors",
    "design",
    "database",
    "limits",
    "search",
    "presets",
    "published",
    "flaws",
    "data_to_memory",
    "source",
];

/// Which combinations of values are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Design {
    /// Every value of each factor with every value of the others.
    #[default]
    Full,
    /// The first value of every factor, then one factor at a time at each of its other values.
    OneAtATime,
    /// The first values together, the second values together, and so on. All factors have the same number of values.
    List,
}

/// What a trial starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Database {
    /// Every trial loads its documents again.
    #[default]
    Fresh,
    /// A trial measures what an earlier one loaded into the same store, if the documents are the same.
    Kept,
}

/// Values of factors by path.
pub type FactorValues = IndexMap<String, Value>;

/// A study at one combination of values.
#[derive(Debug, Clone)]
pub struct StudyConfiguration {
    /// The values.
    pub values: FactorValues,
    /// The study at these values.
    pub study: Study,
    /// The value of `scale`, if that is a factor.
    pub scale: Option<f64>,
    /// Options of the stores' URLs: of every store, or of one.
    pub store_options: Vec<StoreOption>,
}

/// An option of a store's URL that a factor sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreOption {
    /// The store that it is for; `None` for every store.
    pub store: Option<String>,
    /// Its name.
    pub name: String,
    /// Its value as it appears in a URL.
    pub value: String,
}

impl StudyConfiguration {
    /// The values that affect this store, without the options of other stores.
    pub fn values_of(&self, store: &str) -> FactorValues {
        let concerns = |path: &str| match kind(path) {
            Kind::Store { store: Some(other), .. } => other == store,
            Kind::Setting => path.strip_prefix("servers.").is_none_or(|rest| self.is_of_server(store, rest)),
            _ => true,
        };
        self.values.iter().filter(|(path, _)| concerns(path)).map(|(p, v)| (p.clone(), v.clone())).collect()
    }

    /// Whether a setting of a server belongs to this store's server.
    fn is_of_server(&self, store: &str, setting: &str) -> bool {
        let url = self.study.stores.0.get(store).map_or("", String::as_str);
        let scheme = url.split(':').next().and_then(|schemes| schemes.rsplit('+').next()).unwrap_or_default();
        let server = self.study.server_of(store, scheme).map(|(name, _)| name);
        server.is_some() && server == setting.split('.').next()
    }

    /// The options that this store's URL gets.
    pub fn options_of<'a>(&'a self, store: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let concerns = move |o: &&StoreOption| o.store.as_deref().is_none_or(|of| of == store);
        self.store_options.iter().filter(concerns).map(|o| (o.name.as_str(), o.value.as_str()))
    }
}

enum Kind<'a> {
    Scale,
    Store { store: Option<&'a str>, option: &'a str },
    Setting,
}

fn kind(path: &str) -> Kind<'_> {
    if path == "scale" {
        return Kind::Scale;
    }
    if let Some(option) = path.strip_prefix("store.") {
        return Kind::Store { store: None, option };
    }
    match path.strip_prefix("stores.").and_then(|rest| rest.rsplit_once('.')) {
        Some((store, option)) => Kind::Store { store: Some(store), option },
        None => Kind::Setting,
    }
}

/// The end of a factor's path that says what it sets: `batch`; `stored.count` of a collection.
pub fn short_name(path: &str) -> &str {
    match path.strip_prefix("collections.") {
        Some(setting) => setting,
        None => path.rsplit('.').next().unwrap_or(path),
    }
}

/// The names under which factors are shown: the short one if it is unique, otherwise a longer end of the path that is:
/// `import.tasks`.
pub fn short_names<'a>(paths: impl IntoIterator<Item = &'a str> + Clone) -> IndexMap<&'a str, &'a str> {
    let ends = |path: &str, name: &str| {
        path.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('.'))
    };
    let alone = |name: &str| paths.clone().into_iter().filter(|other| ends(other, name)).count() == 1;
    let longer = |path: &'a str| {
        let dots = path.rmatch_indices('.').map(|(at, _)| &path[at + 1..]);
        dots.filter(|name| name.len() > short_name(path).len()).find(|name| alone(name)).unwrap_or(path)
    };
    let shown = |path: &'a str| if alone(short_name(path)) { short_name(path) } else { longer(path) };
    paths.clone().into_iter().map(|path| (path, shown(path))).collect()
}

/// A value as it is shown: a text without quotes, anything else as JSON.
pub fn shown_value(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl Study {
    /// The combinations of values that the design makes, in order: the last factor changes fastest. Without factors,
    /// there is one combination without values.
    pub fn combinations(&self) -> Vec<FactorValues> {
        let at = |chosen: &dyn Fn(usize) -> usize| -> FactorValues {
            let values = self.factors.iter().enumerate();
            values.filter_map(|(n, (path, values))| Some((path.clone(), values.get(chosen(n))?.clone()))).collect()
        };
        match self.design {
            Design::Full => {
                let mut all = vec![FactorValues::new()];
                for (path, values) in &self.factors {
                    all = all
                        .into_iter()
                        .flat_map(|before| {
                            values.iter().map(move |value| {
                                let mut with = before.clone();
                                with.insert(path.clone(), value.clone());
                                with
                            })
                        })
                        .take(MOST_COMBINATIONS + 1)
                        .collect();
                }
                all
            }
            Design::OneAtATime => {
                let mut all = vec![at(&|_| 0)];
                for (n, values) in self.factors.values().enumerate() {
                    all.extend((1..values.len()).map(|value| at(&|factor| if factor == n { value } else { 0 })));
                }
                all
            }
            Design::List => {
                let most = self.factors.values().map(Vec::len).max().unwrap_or(1);
                (0..most).map(|value| at(&|_| value)).collect()
            }
        }
    }

    /// The study at each combination of its factors' values, from its text with overrides applied.
    ///
    /// # Errors
    /// A factor that the study does not have, or a value that the study rejects, with the factor's place.
    pub fn configurations(
        &self,
        text: &str,
        file: &Path,
        overrides: &[Override],
    ) -> Result<Vec<StudyConfiguration>, StudyErrors> {
        for path in self.factors.keys().filter(|path| matches!(kind(path), Kind::Setting)) {
            let mut targets = self.settings(path);
            if let Some(given) = targets.find_map(|target| overrides.iter().find(|one| nested(&one.path, &target))) {
                let message = format!(
                    "`{}` is varied by the factor `{path}`, so setting it would have no effect; set the values instead: \
                     --set 'factors.\"{path}\"=[…]'",
                    given.path
                );
                return Err(StudyErrors::one(Path::new("--set"), "", None, given.path.clone(), message));
            }
        }
        let all = self.combinations();
        let mut configurations = Vec::with_capacity(all.len());
        // Combinations that differ only in options of stores share one parsed study.
        let mut parsed: Vec<(Vec<Override>, Study)> = Vec::new();
        for values in all {
            let mut given = overrides.to_vec();
            let (mut scale, mut store_options) = (None, Vec::new());
            for (path, value) in &values {
                match kind(path) {
                    Kind::Scale => scale = value.as_f64(),
                    Kind::Store { store, option } => store_options.push(StoreOption {
                        store: store.map(str::to_owned),
                        name: option.to_owned(),
                        value: shown_value(value),
                    }),
                    Kind::Setting => given.extend(self.settings(path).map(|path| Override::of_value(path, value))),
                }
            }
            let known = parsed.iter().find(|(of, _)| *of == given).map(|(_, study)| study.clone());
            let study = match known {
                Some(study) => study,
                None => {
                    let study = Self::parse_with(text, file, &given).map_err(|errors| {
                        let told: Vec<String> = values.iter().map(|(p, v)| format!("{p} = {v}")).collect();
                        let first = errors.0.first().map(|e| match e.key.as_str() {
                            "" => e.message.clone(),
                            key => format!("{key}: {}", e.message),
                        });
                        let message = format!("with {}: {}", told.join(", "), first.unwrap_or_default());
                        Self::error_at(text, file, overrides, "factors", message)
                    })?;
                    // Thousands of studies would only fill memory. Equal values usually follow one another.
                    if parsed.len() > 64 {
                        parsed.clear();
                    }
                    parsed.push((given, study.clone()));
                    study
                }
            };
            // The study's own stores, or those that replaced them.
            let (stores, replaced_stores) = (self.stores.clone(), self.replaced_stores);
            let study = Study { stores, replaced_stores, ..study };
            configurations.push(StudyConfiguration { values, study, scale, store_options });
        }
        Ok(configurations)
    }

    /// What two factors both set, if anything.
    fn sets_both(&self, one: &str, other: &str) -> Option<String> {
        match (kind(one), kind(other)) {
            (Kind::Store { store: a, option: x }, Kind::Store { store: b, option: y }) => {
                let same = x == y && (a.is_none() || b.is_none() || a == b);
                same.then(|| format!("the store's option `{x}`"))
            }
            (Kind::Setting, Kind::Setting) => {
                let targets: Vec<String> = self.settings(other).collect();
                self.settings(one).find(|path| targets.iter().any(|target| nested(path, target)))
            }
            _ => None,
        }
    }

    /// The settings of a path: `phases.*.x` is one in every phase that runs a mix.
    fn settings<'a>(&'a self, path: &'a str) -> impl Iterator<Item = String> + 'a {
        let each = path.strip_prefix("phases.*.");
        let lone = each.is_none().then(|| path.to_owned());
        let phases = each.into_iter().flat_map(|key| {
            self.phases.iter().filter(|p| !p.mix.is_empty()).map(move |p| format!("phases.{}.{key}", p.name))
        });
        lone.into_iter().chain(phases)
    }
}

/// Whether two paths are the same setting, or one contains the other.
fn nested(a: &str, b: &str) -> bool {
    let within = |long: &str, short: &str| long.strip_prefix(short).is_some_and(|rest| rest.starts_with('.'));
    a == b || within(a, b) || within(b, a)
}

/// Finds the problems of the factors and their design.
pub(super) fn check(study: &Study, problems: &mut Problems<'_>) {
    let before = problems.found.len();
    for (path, values) in &study.factors {
        let mut say = |message: String| problems.say(&["factors", path], message);
        if let Some(message) = wrong_path(study, path) {
            say(message);
        }
        if matches!(kind(path), Kind::Setting) && study.settings(path).next().is_none() {
            say("`phases.*` means phases with a mix, and no phase of this study runs a mix; name the phase".into());
        }
        for other in study.factors.keys().take_while(|other| *other != path) {
            if let Some(both) = study.sets_both(path, other) {
                say(format!("`{other}` sets {both} too, so one of them would have no effect; keep one of the two"));
            }
        }
        if values.is_empty() {
            say("a factor needs at least one value, such as [4, 16, 64]".into());
        }
        if values.len() > MOST_COMBINATIONS {
            say(format!("a factor has at most {MOST_COMBINATIONS} values, not {}", values.len()));
            continue;
        }
        for (n, value) in values.iter().enumerate() {
            if values[..n].contains(value) {
                say(format!("the value {value} is given twice; remove one of them"));
            }
            if path == "scale" && !value.as_f64().is_some_and(|scale| scale.is_finite() && scale > 0.0) {
                say(format!("a scale of {value} makes no documents; use a number above 0"));
            }
        }
    }
    let counts: Vec<usize> = study.factors.values().map(Vec::len).collect();
    if study.design == Design::List && counts.windows(2).any(|pair| pair[0] != pair[1]) {
        let told: Vec<String> = study.factors.iter().map(|(p, l)| format!("{p} has {}", l.len())).collect();
        let message = format!(
            "`list` combines the values of all factors in order, so each needs the same number of values: {}",
            told.join(", ")
        );
        problems.say(&["design"], message);
    }
    if study.design != Design::Full && study.factors.is_empty() {
        problems.say(&["design"], "a design needs factors; add [factors]");
    }
    let combinations = counts.iter().try_fold(1usize, |all, n| all.checked_mul(*n)).unwrap_or(usize::MAX);
    if study.design == Design::Full && combinations > MOST_COMBINATIONS {
        let message = format!(
            "these factors have more than {MOST_COMBINATIONS} combinations; remove values, or use design = \
             \"one-at-a-time\""
        );
        problems.say(&["factors"], message);
    }
    let configurations = match study.design {
        Design::Full => combinations,
        Design::OneAtATime => counts.iter().map(|n| n.saturating_sub(1)).fold(1, usize::saturating_add),
        Design::List => counts.iter().copied().max().unwrap_or(1),
    };
    let trials =
        configurations.saturating_mul(study.stores.0.len().max(1)).saturating_mul(study.repeats.most() as usize);
    if problems.found.len() == before && trials > MOST_TRIALS {
        let message = format!("these are more than {MOST_TRIALS} trials; use fewer repeats, values or stores");
        problems.say(&["repeats"], message);
    }
}

/// The problem with a factor's path, as far as it is known without its values.
fn wrong_path(study: &Study, path: &str) -> Option<String> {
    match kind(path) {
        Kind::Scale => return None,
        Kind::Store { option: "", .. } => return Some("name an option: store.OPTION".into()),
        Kind::Store { store: Some(store), .. } if !study.stores.is_empty() && !study.stores.0.contains_key(store) => {
            return Some(no_such("store", store, study.stores.0.keys().map(String::as_str)));
        }
        Kind::Store { .. } => return None,
        Kind::Setting => {}
    }
    let (root, rest) = path.split_once('.').unwrap_or((path, ""));
    let known = ["phases", "collections", "scale", "store", "stores", "servers"];
    match root {
        _ if FIXED.contains(&root) => Some(format!("`{root}` describes the study and takes no values")),
        "phases" | "collections" => {
            let (name, key) = rest.split_once('.').unwrap_or((rest, ""));
            let phases: Vec<&str> = study.phases.iter().map(|p| p.name.as_str()).collect();
            match root {
                "phases" if name != "*" && !phases.contains(&name) => Some(no_such("phase", name, phases)),
                "collections" if !study.collections.contains_key(name) => {
                    Some(no_such("collection", name, study.collections.keys().map(String::as_str)))
                }
                _ if key.is_empty() => Some(format!("name a setting of it: {root}.{name}.SETTING")),
                _ => None,
            }
        }
        "servers" => {
            let (name, key) = rest.split_once('.').unwrap_or((rest, ""));
            match key {
                _ if !study.servers.contains_key(name) => {
                    Some(no_such("server", name, study.servers.keys().map(String::as_str)))
                }
                "cpus" | "memory" => None,
                // Configurations of one store share its server.
                _ => Some(format!(
                    "only the limits of a server can be varied: servers.{name}.cpus, servers.{name}.memory"
                )),
            }
        }
        "store" | "stores" => {
            Some("name an option of a store: stores.NAME.OPTION, or store.OPTION for all of them".into())
        }
        _ => Some(match did_you_mean(root, known) {
            Some(name) => format!("a study has no `{root}` to vary; did you mean `{name}`?"),
            None => format!(
                "a study has no `{root}` to vary; begin with phases.NAME, phases.*, collections.NAME, store.OPTION or \
                 scale"
            ),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Stores;

    const STUDY: &str = r#"title = "Sweeps"
stores = { a = "memory:", b = "null:" }
presets.small = { about = "for a laptop", scale = 0.1, repeats = 2, factors = { scale = [1, 2] }, set = { "phases.load.batch" = 7, "limits.'read.service.p99'" = "1s" } }

[collections.books]
count  = 100
fields = { name = { words = 2 } }

[[phases]]
name = "load"
load = ["books"]

[[phases]]
name       = "read"
mix        = { read = 1 }
operations = 10

[factors]
"phases.load.batch" = [1, 10]
"phases.*.workers"  = [1, 2, 4]
"#;

    fn study(text: &str) -> Study {
        Study::parse(text, Path::new("study.toml"), &[]).unwrap()
    }

    fn refused(find: &str, replace: &str) -> String {
        assert!(STUDY.contains(find), "{find}");
        let text = STUDY.replace(find, replace);
        let study = match Study::parse(&text, Path::new("study.toml"), &[]) {
            Err(errors) => return errors.to_string(),
            Ok(study) => study,
        };
        study.configurations(&text, Path::new("study.toml"), &[]).expect_err("this study is wrong").to_string()
    }

    fn shown(study: &Study) -> Vec<String> {
        let told = |values: FactorValues| values.values().map(shown_value).collect::<Vec<_>>().join(" ");
        study.combinations().into_iter().map(told).collect()
    }

    #[test]
    fn designs_make_combinations_in_order() {
        let mut s = study(STUDY);
        assert_eq!(shown(&s), ["1 1", "1 2", "1 4", "10 1", "10 2", "10 4"]);
        s.design = Design::OneAtATime;
        assert_eq!(shown(&s), ["1 1", "10 1", "1 2", "1 4"]);
        s.factors.insert("phases.load.batch".into(), vec![1.into(), 2.into(), 3.into()]);
        s.design = Design::List;
        assert_eq!(shown(&s), ["1 1", "2 2", "3 4"]);
        s.factors.clear();
        s.design = Design::Full;
        assert_eq!(s.combinations(), [FactorValues::new()]);
    }

    #[test]
    fn each_configuration_is_the_study_at_its_values() {
        let text = STUDY.replace(
            "\"phases.load.batch\" = [1, 10]",
            "scale = [1, 0.5]\n\"store.cache\" = [\"1MiB\"]\n\"stores.a.x\" = [true]",
        );
        let s = study(&text);
        let overrides = Override::parse_all(&["phases.read.operations=99".into()]).unwrap();
        let configurations = s.configurations(&text, Path::new("study.toml"), &overrides).unwrap();
        assert_eq!(configurations.len(), 6);
        let last = configurations.last().unwrap();
        assert_eq!((last.scale, last.study.phases[0].workers, last.study.phases[1].workers), (Some(0.5), 2, 4));
        assert_eq!(last.study.phases[1].operations.map(|n| n.0), Some(99));
        assert_eq!(last.options_of("a").collect::<Vec<_>>(), [("cache", "1MiB"), ("x", "true")]);
        assert_eq!(last.options_of("b").collect::<Vec<_>>(), [("cache", "1MiB")]);
        assert_eq!(last.values_of("b").len() + 1, last.values_of("a").len());
    }

    /// As `--store` does.
    #[test]
    fn stores_that_replace_those_of_the_study_keep_the_values_of_their_servers() {
        let text = STUDY.replace("\"phases.load.batch\" = [1, 10]", "\"servers.postgres.cpus\" = [1, 2]")
            + "\n[servers.postgres]\nrun = \"postgres -D data\"\n";
        let mut s = study(&text);
        s.stores = Stores::from_entries(&["pg=postgres://me@localhost/db".to_owned()]).unwrap();
        let configurations = s.configurations(&text, Path::new("study.toml"), &[]).unwrap();
        let cpus: Vec<_> =
            configurations.iter().map(|of| of.values_of("pg").get("servers.postgres.cpus").cloned()).collect();
        assert_eq!(cpus, [1, 1, 1, 2, 2, 2].map(|cpus| Some(cpus.into())));
        assert_eq!(configurations[0].study.stores, s.stores);
    }

    #[test]
    fn what_names_nothing_is_refused_with_its_place() {
        for (replace, says) in [
            ("\"phases.laod.batch\"", "did you mean `load`"),
            ("\"phases.load.bacth\"", "did you mean `batch`"),
            ("\"phases.load\"", "name a setting"),
            ("\"collections.boks.count\"", "did you mean `books`"),
            ("\"colections.books.count\"", "did you mean `collections`"),
            ("\"stores.c.x\"", "unknown store `c`"),
            ("seed", "takes no values"),
            ("scale", "makes no documents"),
        ] {
            let values = if replace == "scale" { "scale = [0" } else { "\"phases.load.batch\" = [1" };
            let text = refused("\"phases.load.batch\" = [1", &values.replace("\"phases.load.batch\"", replace));
            assert!(text.contains(says) && text.contains("study.toml:"), "{replace}: {text}");
        }
        assert!(refused("[1, 10]", "[]").contains("at least one value"));
        assert!(refused("[1, 10]", "[1, 1]").contains("given twice"));
        assert!(refused("[1, 10]", "[1, -5]").contains("-5"));
        assert!(refused("title =", "design = \"list\"\ntitle =").contains("needs the same number"));
        assert!(refused("title =", "design = \"lost\"\ntitle =").contains("`lost` is not known"));
        let text = STUDY.replace("title =", "database = \"kept\"\ntitle =").replace("{ read = 1 }", "{ delete = 1 }");
        let errors = Study::parse(&text, Path::new("study.toml"), &[]).unwrap_err().to_string();
        assert!(errors.contains("what this phase leaves"), "{errors}");
    }

    #[test]
    fn presets_change_scale_factors_and_settings() {
        let s = study(STUDY);
        assert!(s.preset("smal").unwrap_err().contains("did you mean `small`"));
        let small = s.preset("small").unwrap().overrides("small");
        let changed = Study::parse_with(STUDY, Path::new("study.toml"), &small).unwrap();
        assert_eq!((changed.phases[0].batch, changed.repeats), (Some(7), 2.into()));
        assert_eq!(changed.factors.keys().collect::<Vec<_>>(), ["scale"]);
        assert_eq!(changed.limits.len(), 1);
    }

    #[test]
    fn factors_that_would_do_nothing_are_refused() {
        let study = |phases: &str, factors: &str, overrides: &[&str]| {
            let text = format!(
                "title = \"x\"\n[collections.c]\ncount = 10\n[[phases]]\nname = \"load\"\nload = [\"c\"]\n{phases}\n[factors]\n{factors}"
            );
            let overrides: Vec<Override> = overrides.iter().map(|o| Override::parse(o).unwrap()).collect();
            let file = Path::new("x.toml");
            let configurations =
                Study::parse_with(&text, file, &overrides).and_then(|s| s.configurations(&text, file, &overrides));
            configurations.map(|_| ()).map_err(|e| e.to_string()).err().unwrap_or_default()
        };
        let read = "[[phases]]\nname = \"read\"\nmix = { read = 1 }\noperations = 10";
        assert_eq!(study(read, "\"phases.*.workers\" = [1, 2]", &[]), "");
        let none = study("", "\"phases.*.workers\" = [1, 2]", &[]);
        assert!(none.contains("no phase of this study runs a mix"), "{none}");
        for (one, other) in [
            ("\"phases.read.workers\" = [1, 2]", "\"phases.*.workers\" = [3, 4]"),
            ("\"store.cache\" = [1, 2]", "\"stores.a.cache\" = [3, 4]"),
            ("\"phases.read.mix\" = [{ read = 1 }]", "\"phases.read.mix.read\" = [3, 4]"),
        ] {
            let both = study(read, &format!("{one}\n{other}"), &[]);
            assert!(both.contains("one of them would have no effect"), "{both}");
        }
        let place = study(read, "\"stores.a\" = [1, 2]", &[]);
        assert!(place.contains("stores.NAME.OPTION"), "{place}");
        let set = study(read, "\"phases.read.workers\" = [1, 2]", &["phases.read.workers=7"]);
        assert!(set.contains("--set") && set.contains("varied by the factor"), "{set}");
    }

    #[test]
    fn names_are_short_where_that_is_enough() {
        let names = short_names(["phases.load.batch", "phases.read.workers", "phases.load.workers", "scale"]);
        let names: Vec<&str> = names.values().copied().collect();
        assert_eq!(names, ["batch", "read.workers", "load.workers", "scale"]);
    }
}
