//! What was left out on stores that do not support it.

use indexmap::{IndexMap, IndexSet};

use crate::RunResult;
use crate::human::some_of;

/// The most parts that are named for a store.
const MOST: usize = 4;

/// One sentence for each store on which something was left out.
pub(super) fn left_out(result: &RunResult) -> Vec<String> {
    let mut stores: IndexMap<&str, IndexMap<&str, IndexSet<&str>>> = IndexMap::new();
    for (store, out) in result.plan.configurations.iter().flat_map(|of| of.left_out.iter().map(|out| (&of.store, out)))
    {
        stores.entry(store).or_default().entry(&out.why).or_default().insert(&out.what);
    }
    let because = |(why, parts): (&&str, &IndexSet<&str>)| {
        format!("{}, because it {why}", some_of(parts.iter().map(|part| (*part).to_owned()), MOST))
    };
    let sentence = |(store, reasons): (&str, IndexMap<&str, IndexSet<&str>>)| {
        format!("Left out on {store}: {}.", reasons.iter().map(because).collect::<Vec<_>>().join("; "))
    };
    stores.into_iter().map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::plan::{LeftOut, PlannedConfiguration};

    #[test]
    fn each_store_names_what_was_left_out_and_why() {
        let mut run = fixture::concluded(fixture::swept());
        assert!(left_out(&run).is_empty());
        let part = |what: &str, why: &str| LeftOut { what: what.into(), why: why.into(), ..LeftOut::default() };
        let scan = "does not support `scan`";
        let mut left_out = vec![part("the index of `books`", "has no secondary indexes"), part("phase `list`", scan)];
        left_out.extend(["a", "b", "c", "d"].map(|name| part(name, scan)));
        let of = PlannedConfiguration { store: "sqlite".into(), left_out, ..PlannedConfiguration::default() };
        // Of two values of a factor.
        run.plan.configurations = vec![of.clone(), of];
        let told = crate::answer::answer(&run).found;
        assert!(
            told.contains(
                "Left out on sqlite: the index of `books`, because it has no secondary indexes; phase `list`, a, b, c and \
                 1 more, because it does not support `scan`."
            ),
            "{told}"
        );
    }
}
