//! `wrong-content`: do the documents that were read match those that were written?

use crate::OpResult;
use crate::human::count;
use crate::validity::check::{Check, Finding, Looks, Scene, Severity};
use storebench_study::op_kind::OpKind;

pub(super) const CHECK: Check =
    Check::new("wrong-content", "contents were wrong", &[Looks::Phase(look)]).and_of_warm_ups();

const THRESHOLD: &str = "invalid from one wrong document; note when none was checked";
const OF_ANSWERS: &str = "invalid from one answer with other rows than the study expects";

/// Whether the documents that were read match those that were written.
fn look(scene: &Scene<'_>) -> Option<Finding> {
    // A transaction need not read documents.
    let returns_documents =
        |kind: OpKind| kind.returns_contents() && !matches!(kind, OpKind::Query | OpKind::Transaction);
    let any_reads = scene.phase.ops.values().filter_map(OpResult::op_kind).any(returns_documents);
    let query = |op: &&OpResult| op.kind == OpKind::Query.name();
    let sum = |of_queries: bool| {
        let ops = scene.phase.ops.values().filter(|op| query(op) == of_queries);
        ops.fold((0u64, 0u64), |(c, w), op| (c.saturating_add(op.checked), w.saturating_add(op.wrong)))
    };
    let ((checked, wrong), (answers, wrong_answers)) = (sum(false), sum(true));
    // Of transactions, only wrong ones are counted.
    let in_transactions = scene.phase.ops.values().fold(0u64, |sum, op| sum.saturating_add(op.wrong_rows));
    let (answers, wrong_answers) =
        (answers.saturating_add(in_transactions), wrong_answers.saturating_add(in_transactions));
    // The query or the document, and what was found there.
    let first = scene.phase.wrong_examples.first().map_or_else(String::new, |first| format!("; the first: {first}"));
    let theirs = |name: &str| scene.result.documents.iter().any(|c| c.collection == name && c.existing.is_some());
    let (severity, observed, advice) = match () {
        () if wrong_answers > 0 && wrong == 0 => (
            Severity::Invalid,
            format!(
                "{} of {} answers to queries have a number of rows that the study does not expect{first}",
                count(wrong_answers),
                count(answers)
            ),
            "see `wrong_examples`: correct `rows` or the text of the query, or find out why the store finds other documents",
        ),
        () if !any_reads && checked == 0 && answers == 0 => return None,
        () if !any_reads && checked == 0 => {
            (Severity::Pass, format!("{} answers to queries have as many rows as expected", count(answers)), "")
        }
        () if checked == 0 && scene.phase.ops.values().all(|op| theirs(&op.collection)) => (
            Severity::Note,
            "the documents that were read are not Storebench's, and were not compared".to_owned(),
            "Storebench cannot know what they should be: check them by other means",
        ),
        () if wrong > 0 => (
            Severity::Invalid,
            format!("{} of {} checked documents differ from what was written{first}", count(wrong), count(checked)),
            "the store returned different data than it was given: see `wrong_examples`; ignore every figure of this run",
        ),
        () if checked == 0 => (
            Severity::Note,
            "no document that was read was checked".to_owned(),
            "set `check` above 0, or run longer, to check that the store returns what it was given",
        ),
        () => (Severity::Pass, format!("{} documents checked, none wrong", count(checked)), ""),
    };
    let of_answers = wrong_answers > 0 && wrong == 0 || !any_reads && checked == 0;
    Some(Finding::new(severity, observed, if of_answers { OF_ANSWERS } else { THRESHOLD }, advice))
}

#[cfg(test)]
mod tests {
    use crate::validity::testing::{INVALID, NOTE, PASS, closed, severity};
    use crate::validity::{exit_code, judge};

    #[test]
    fn wrong_content() {
        assert_eq!(severity(&closed(|_| ()), "wrong-content"), PASS);
        assert_eq!(severity(&closed(|p| p.ops[0].checked = 0), "wrong-content"), NOTE);
        let mut wrong = closed(|p| p.ops[0].wrong = 1);
        assert_eq!(severity(&wrong, "wrong-content"), INVALID);
        wrong.checks = judge(&wrong);
        assert_eq!(exit_code(&wrong), 1);
        let observed = |kind: &str, example: &str| {
            let run = closed(|p| {
                p.ops[0].wrong = 1;
                p.ops[0].kind = kind.into();
                p.wrong_examples = vec![example.into(), "another".into()];
            });
            judge(&run).into_iter().find(|check| check.check == "wrong-content").unwrap().observed
        };
        let told = observed("query", "top, with values of book-7: 3 rows, but the study expects 5");
        assert!(told.ends_with("; the first: top, with values of book-7: 3 rows, but the study expects 5"), "{told}");
        let told = observed("read", "book-7: field `title` differs");
        assert!(told.ends_with("differ from what was written; the first: book-7: field `title` differs"), "{told}");
        let writes = closed(|p| {
            p.ops.shift_remove("read");
        });
        assert_eq!(severity(&writes, "wrong-content"), None);
    }
}
