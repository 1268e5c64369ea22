//! Relations through the study file.

use std::collections::{HashMap, HashSet};

use super::{catalog, key, try_catalog, value};

const SERVICE: &str = r#"
[collections.users]
count = 2000
[collections.books]
count = 300
[collections.users-books]
per    = { users = [5, 16] }
key    = "users-books/{parent}/{seq:04}"
fields = { book = { ref = "books", popularity = "zipf:0.8" } }
[collections.highlights]
per    = { users = { bins = [[1, 900], [2, 10, 300], [10, 100, 20], [500, 1]], total = 3_000 } }
key    = "highlights/{user}-{book}/{seq:014}"
index  = [["user"]]
fields = { user = "{parent}", owner = "{parent.key}", book = { ref = "users-books", same_parent = true }, text = { sentences = [1, 4] } }
[collections.notes]
per    = { highlights = 2 }
"#;

#[test]
fn children_name_their_parent_and_its_own_things() {
    let catalog = catalog(SERVICE);
    let highlights = catalog.get(catalog.find("highlights").unwrap());
    assert_eq!(highlights.count(), 3_000);
    let mut per_user: HashMap<String, u64> = HashMap::new();
    let mut keys = HashSet::new();
    for index in 0..highlights.count() {
        let v = value(highlights, index, 0);
        let (user, book) = (v["user"].as_str().unwrap(), v["book"].as_str().unwrap());
        assert_eq!(v["owner"], format!("users/{user}"));
        let mut parts = book.split('/');
        assert_eq!((parts.next(), parts.next()), (Some("users-books"), Some(user)), "one of that user's books");
        let seq = per_user.entry(user.to_owned()).or_default();
        assert_eq!(key(highlights, index), format!("highlights/{user}-{book}/{seq:014}"));
        assert_eq!(highlights.children_of(user.parse().unwrap()).start + *seq, index);
        *seq += 1;
        assert!(keys.insert(key(highlights, index)));
    }
    let mut counts: Vec<u64> = per_user.values().copied().collect();
    counts.sort_unstable();
    assert_eq!(counts.len(), 1_221, "the other users have none");
    assert_eq!(counts.iter().filter(|c| **c == 1).count(), 900);
    assert_eq!(counts.iter().filter(|c| (2..10).contains(*c)).count(), 300);
    assert_eq!(counts.iter().filter(|c| (10..100).contains(*c)).count(), 20);
    assert_eq!(counts.last(), Some(&500));
    let users_books = catalog.get(2);
    let keys: HashSet<String> = (0..users_books.count()).map(|i| key(users_books, i)).collect();
    assert_eq!(keys.len() as u64, users_books.count());
    assert_eq!(catalog.get(4).count(), 6_000);
}

#[test]
fn a_prefix_holds_one_parents_children() {
    let catalog = catalog(SERVICE);
    let books = catalog.get(2);
    let mut prefix = Vec::new();
    for index in [0, 17, 9_000] {
        prefix.clear();
        books.write_key_prefix(index, Some("seq"), &mut prefix);
        let v = key(books, index);
        assert_eq!(String::from_utf8_lossy(&prefix), v[..v.rfind('/').unwrap() + 1]);
    }
}

#[test]
fn scale_keeps_the_fan_out() {
    let dir = tempfile::tempdir().unwrap();
    for scale in [0.1, 0.5, 3.0] {
        let scaled = try_catalog(SERVICE, scale, dir.path()).unwrap();
        assert_eq!(scaled.get(0).count(), (2_000.0 * scale) as u64);
        let per_user = scaled.get(2).count() as f64 / scaled.get(0).count() as f64;
        assert!((per_user - 10.5).abs() < 0.2, "{per_user}");
        let highlights = scaled.get(3).count() as f64;
        assert!((highlights / (3_000.0 * scale) - 1.0).abs() < 0.01, "{highlights}");
    }
}

/// The bookseller's service as published, but with 5 to 16 users-books per user.
const PUBLISHED: &str = r#"
[collections.users]
count = 69_380_000
[collections.users-books]
per    = { users = [5, 16] }
key    = "users-books/{parent}/{seq:04}"
[collections.highlights]
key    = "highlights/{user}/{seq:014}"
index  = [["user"]]
fields = { user = "{parent}", book = { ref = "users-books", same_parent = true } }
[collections.highlights.per.users]
total = 497_030_000
bins  = [
    [203_550, 1], [100_000, 200_000, 428], [10_000, 100_000, 10_622], [1_000, 10_000, 20_340],
    [100, 1_000, 67_249], [10, 100, 59_827], [2, 10, 10_158_123], [1, 43_425_405],
]
"#;

#[test]
fn the_published_service_is_made_at_any_scale() {
    let dir = tempfile::tempdir().unwrap();
    let full = try_catalog(PUBLISHED, 1.0, dir.path()).unwrap();
    assert_eq!(full.get(2).count(), 497_030_000);
    assert_eq!(full.get(2).parents(), 53_741_995);
    for scale in [0.01, 0.001, 0.000_1] {
        let scaled = try_catalog(PUBLISHED, scale, dir.path()).unwrap();
        let (users, books, highlights) = (scaled.get(0), scaled.get(1), scaled.get(2));
        assert_eq!(users.count(), (69_380_000.0 * scale) as u64);
        assert_eq!(books.parents(), users.count(), "every user has books");
        assert_eq!(highlights.count(), (497_030_000.0 * scale) as u64);
        assert!((highlights.parents() as f64 - 53_741_995.0 * scale).abs() <= 1.0);
        for index in (0..highlights.count()).step_by(997) {
            let v = value(highlights, index, 0);
            let book = v["book"].as_str().unwrap();
            assert!(book.starts_with(&format!("users-books/{}/", v["user"].as_str().unwrap())), "{v}");
        }
        // The same study at the same scale generates the same documents again.
        let again = try_catalog(PUBLISHED, scale, dir.path()).unwrap();
        for index in [0, 1, highlights.count() / 2, highlights.count() - 1] {
            assert_eq!(value(again.get(2), index, 0), value(highlights, index, 0));
        }
    }
}

#[test]
fn bins_of_parents_that_are_children_themselves_are_scaled_with_them() {
    let chain = r#"
[collections.users]
count = 1_000
[collections.posts]
per = { users = { bins = [[1, 400], [2, 10, 90], [1_000, 10]] } }
[collections.comments]
per = { posts = { bins = [[1, 5_000], [2, 4, 5_500], [50, 300]] } }
"#;
    let dir = tempfile::tempdir().unwrap();
    for scale in [0.001, 0.003, 0.01, 0.05, 0.5, 1.0, 2.5] {
        // With very few users there may be none with a post, which is an error.
        match try_catalog(chain, scale, dir.path()) {
            Ok(made) => {
                let share = made.get(2).parents() as f64 / made.get(1).count() as f64;
                let posts = try_catalog(chain, 1.0, dir.path()).unwrap().get(1).count() as f64;
                assert!((share - 10_800.0 / posts).abs() * made.get(1).count() as f64 <= 1.0, "{scale}: {share}");
            }
            Err(e) => assert!(scale < 0.01 && e.to_string().contains("no parent has a child"), "{scale}: {e}"),
        }
    }
    let many = chain.replace("[50, 300]", "[50, 3_000]");
    for scale in [0.01, 1.0, 3.0] {
        let message = try_catalog(&many, scale, dir.path()).unwrap_err().to_string();
        assert!(message.contains("hold 13,500 parents") && message.contains("has 10,8"), "{message}");
    }
}
