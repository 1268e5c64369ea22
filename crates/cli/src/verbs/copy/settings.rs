//! The arguments of a copy, by flag. To resume a copy, they must be the same.

use std::collections::BTreeMap;
use std::fmt::Display;

use storebench_results::redact_url;
use storebench_transfer::OwnMembers;

use crate::args::CopyArgs;

/// The arguments by flag, as the copy's log keeps them.
pub(super) struct Settings(pub(super) BTreeMap<String, String>);

impl Settings {
    pub(super) fn of(args: &CopyArgs, to_collection: Option<&String>) -> Self {
        fn text(value: Option<&impl Display>) -> Option<String> {
            value.map(ToString::to_string)
        }
        let given = |flag: bool| flag.then(|| "given".to_owned());
        let (records, columns) = (&args.records, &args.columns);
        let all = [
            ("FROM", Some(redact_url(&args.from))),
            ("TO", Some(redact_url(&args.to))),
            ("--from-format", text(args.from_format.as_ref())),
            ("--to-format", text(args.to_format.as_ref())),
            ("--types", text(args.types.as_ref())),
            ("--op", Some(args.op.name().to_owned())),
            ("--from-collection", args.from_collection.clone()),
            ("--from-key", args.from_key.clone()),
            ("--from-body", args.from_body.clone()),
            ("--query", args.query.clone()),
            ("--view", args.view.clone()),
            ("--keys", text(args.keys.as_ref())),
            ("--to-collection", to_collection.cloned()),
            ("--to-key", args.to_key.clone()),
            ("--to-body", args.to_body.clone()),
            ("--key-field", args.key_field.clone()),
            ("--delimiter", args.delimiter.map(|delimiter| delimiter.escape_ascii().to_string())),
            ("--escapes", args.escapes.map(|escapes| escapes.name().to_owned())),
            ("--key", text(records.key.as_ref())),
            ("--filter", records.filter.clone()),
            ("--map", records.map.clone()),
            ("--fields", text(records.fields.as_ref())),
            ("--without", text(records.without.as_ref())),
            ("--rename", text(records.rename.as_ref())),
            ("--value", records.value.clone()),
            ("--op-field", records.op_field.clone()),
            ("--merge", records.merge.clone()),
            ("--merge-absent", given(records.merge_absent)),
            (
                "--own-members",
                Some(records.own_members.name().to_owned()).filter(|_| records.own_members != OwnMembers::default()),
            ),
            ("--expiry", text(records.expiry.as_ref())),
            ("--expiry-field", records.expiry_field.clone()),
            ("--infer", columns.infer.map(|records| if records == 0 { "all".to_owned() } else { records.to_string() })),
            ("--schema", columns.schema.as_ref().map(|path| path.display().to_string())),
            ("--overflow", columns.overflow.clone()),
            ("--no-overflow", given(columns.no_overflow)),
            // A resumed copy removes records from this file, so it must be the same copy's file.
            ("--rejects", args.rejects.as_ref().map(|rejects| rejects.display().to_string())),
            ("--no-partitions", given(args.no_partitions)),
            ("--drop-expiry", given(args.drop_expiry)),
            ("--drop-attachments", given(args.drop_attachments)),
            ("--into-existing", given(args.into_existing)),
            ("--no-key-field", given(args.no_key_field)),
        ];
        Self(all.into_iter().filter_map(|(flag, value)| Some((flag.to_owned(), value?))).collect())
    }

    /// The first of these flags that was given.
    pub(super) fn first_of<'f>(&self, flags: &[&'f str]) -> Option<&'f str> {
        flags.iter().copied().find(|flag| self.0.contains_key(*flag))
    }

    /// The flags in which another copy between the same ends differs; `None` if its ends are different.
    pub(super) fn differs_from(&self, other: &BTreeMap<String, String>) -> Option<String> {
        if ["FROM", "TO"].iter().any(|end| self.0.get(*end) != other.get(*end)) {
            return None;
        }
        let mut flags: Vec<&str> = self.0.keys().chain(other.keys()).map(String::as_str).collect();
        flags.sort_unstable();
        flags.dedup();
        flags.retain(|flag| self.0.get(*flag) != other.get(*flag));
        Some(if flags.is_empty() { "working folder".to_owned() } else { flags.join(", ") })
    }
}
