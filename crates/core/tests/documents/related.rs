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
    assert!(!highlights.can_grow() && catalog.get(0).can_grow());
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
        let scaled = try_catalog(SERVICE, scale, dir.path(), None).unwrap();
        assert_eq!(scaled.get(0).count(), (2_000.0 * scale) as u64);
        let per_user = scaled.get(2).count() as f64 / scaled.get(0).count() as f64;
        assert!((per_user - 10.5).abs() < 0.2, "{per_user}");
        let highlights = scaled.get(3).count() as f64;
        assert!((highlights / (3_000.0 * scale) - 1.0).abs() < 0.01, "{highlights}");
    }
}
