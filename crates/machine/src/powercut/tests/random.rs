//! Random operations, checked against a simple model.

use std::collections::BTreeMap;

use fastrand::Rng;

use super::super::content::PAGE;
use super::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    Folder,
    File(usize),
}

/// Paths, and what each of them is.
type Names = BTreeMap<String, Node>;

#[derive(Debug, Default)]
struct Content {
    live: Vec<u8>,
    durable: Vec<u8>,
    /// The smallest size since the last sync.
    lowest: usize,
    /// Whether it has changed since then.
    changed: bool,
}

#[derive(Debug)]
struct Model {
    names: Names,
    /// The names at the last sync, and after every operation since.
    history: Vec<Names>,
    files: Vec<Content>,
}

fn above(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(above, _)| above)
}

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

impl Model {
    fn new() -> Self {
        let names = Names::from([(String::new(), Node::Folder)]);
        Self { history: vec![names.clone()], names, files: Vec::new() }
    }

    fn is_empty(&self, folder: &str) -> bool {
        folder.is_empty() || !self.names.keys().any(|path| is_below(path, folder))
    }

    fn may_hold(&self, path: &str) -> bool {
        self.names.get(above(path)) == Some(&Node::Folder)
    }

    fn file(&self, path: &str) -> Option<usize> {
        match self.names.get(path) {
            Some(&Node::File(file)) => Some(file),
            _ => None,
        }
    }

    fn commit(&mut self) {
        self.history = vec![self.names.clone()];
    }

    fn changed(&mut self) -> bool {
        self.history.push(self.names.clone());
        true
    }

    fn write(&mut self, path: &str, at: usize, data: &[u8]) -> bool {
        if !self.may_hold(path) || self.names.get(path) == Some(&Node::Folder) {
            return false;
        }
        let file = self.file(path).unwrap_or_else(|| {
            self.files.push(Content::default());
            let file = self.files.len() - 1;
            self.names.insert(path.to_owned(), Node::File(file));
            self.changed();
            file
        });
        let content = &mut self.files[file];
        content.live.resize(content.live.len().max(at + data.len()), 0);
        content.live[at..at + data.len()].copy_from_slice(data);
        content.changed = true;
        true
    }

    fn resize(&mut self, path: &str, size: usize) -> bool {
        let Some(file) = self.file(path) else { return false };
        let content = &mut self.files[file];
        content.live.resize(size, 0);
        content.lowest = content.lowest.min(size);
        content.changed = true;
        true
    }

    fn sync(&mut self, path: &str) -> bool {
        let Some(&node) = self.names.get(path) else { return false };
        if let Node::File(file) = node {
            let content = &mut self.files[file];
            content.durable.clone_from(&content.live);
            content.lowest = content.live.len();
            content.changed = false;
        }
        self.commit();
        true
    }

    fn mkdir(&mut self, path: &str) -> bool {
        if !self.may_hold(path) || self.names.contains_key(path) {
            return false;
        }
        self.names.insert(path.to_owned(), Node::Folder);
        self.changed()
    }

    fn remove(&mut self, path: &str, folder: bool) -> bool {
        let there = self.names.get(path).is_some_and(|node| (*node == Node::Folder) == folder);
        if !there || (folder && !self.is_empty(path)) {
            return false;
        }
        self.names.remove(path);
        self.changed()
    }

    fn link(&mut self, from: &str, to: &str) -> bool {
        let Some(file) = self.file(from).filter(|_| self.may_hold(to) && !self.names.contains_key(to)) else {
            return false;
        };
        self.names.insert(to.to_owned(), Node::File(file));
        self.changed()
    }

    fn rename(&mut self, from: &str, to: &str) -> bool {
        let Some(&node) = self.names.get(from) else { return false };
        if !self.may_hold(to) || is_below(to, from) {
            return false;
        }
        if from == to {
            return true;
        }
        match (node, self.names.get(to)) {
            (_, None) => {}
            (Node::File(one), Some(Node::File(other))) if one == *other => return true,
            (Node::File(_), Some(Node::File(_))) => {}
            (Node::Folder, Some(Node::Folder)) if self.is_empty(to) => {}
            _ => return false,
        }
        let moved: Vec<String> =
            self.names.keys().filter(|path| *path == from || is_below(path, from)).cloned().collect();
        for path in moved {
            let node = self.names.remove(&path).unwrap();
            self.names.insert(format!("{to}{}", &path[from.len()..]), node);
        }
        self.changed()
    }

    fn cut(&mut self) {
        self.names = self.history.swap_remove(0);
        self.commit();
        for content in &mut self.files {
            content.live.clone_from(&content.durable);
            content.lowest = content.live.len();
            content.changed = false;
        }
    }

    /// Adopts what is left after a cut that kept a part. Returns false if that is not a possible state.
    fn take_over(&mut self, left: &BTreeMap<String, Option<Vec<u8>>>) -> bool {
        let fits = |names: &Names| {
            names.len() == left.len()
                && names.iter().zip(left).all(|((path, node), (there, content))| {
                    path == there
                        && match (node, content) {
                            (Node::Folder, None) => true,
                            (Node::File(file), Some(content)) => self.files[*file].may_become(content),
                            _ => false,
                        }
                })
        };
        let Some(names) = self.history.iter().rfind(|names| fits(names)).cloned() else { return false };
        for (path, node) in &names {
            if let (Node::File(file), Some(content)) = (node, &left[path]) {
                self.files[*file].live.clone_from(content);
                self.files[*file].durable.clone_from(content);
                self.files[*file].lowest = content.len();
                self.files[*file].changed = false;
            }
        }
        self.names = names;
        self.commit();
        true
    }
}

impl Content {
    fn may_become(&self, left: &[u8]) -> bool {
        if !self.changed {
            return left == self.durable;
        }
        super::super::content::may_become(&self.durable, &self.live, self.lowest, left)
    }
}

/// Everything on the mount.
fn walk(place: &TestMount) -> BTreeMap<String, Option<Vec<u8>>> {
    let mut all = BTreeMap::from([(String::new(), None)]);
    let mut open = vec![String::new()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(place.path(folder.trim_start_matches('/'))).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{folder}/{}", entry.file_name().to_str().unwrap());
            if entry.file_type().unwrap().is_dir() {
                open.push(path.clone());
                all.insert(path, None);
            } else {
                all.insert(path, Some(fs::read(entry.path()).unwrap()));
            }
        }
    }
    all
}

fn compare(place: &TestMount, model: &Model, what: &str) {
    let content = |node: &Node| match node {
        Node::Folder => None,
        Node::File(file) => Some(model.files[*file].live.clone()),
    };
    let expected: BTreeMap<_, _> = model.names.iter().map(|(path, node)| (path.clone(), content(node))).collect();
    let found = walk(place);
    if found != expected {
        let short = |all: &BTreeMap<String, Option<Vec<u8>>>| -> Vec<(String, Option<usize>)> {
            all.iter().map(|(path, content)| (path.clone(), content.as_ref().map(Vec::len))).collect()
        };
        panic!("{what}: found {:?}, expected {:?}", short(&found), short(&expected));
    }
}

fn step(place: &TestMount, model: &mut Model, dice: &mut Rng) {
    let mut path = || {
        let name = |dice: &mut Rng| ["/a", "/b", "/c", "/d"][dice.u64(..4) as usize];
        let mut path = name(dice).to_owned();
        while path.len() < 6 && dice.u64(..2) == 0 {
            path.push_str(name(dice));
        }
        path
    };
    let (one, other) = (path(), path());
    let real = |path: &str| place.path(path.trim_start_matches('/'));
    let (at, length) = (dice.u64(..5 * PAGE), 1 + dice.u64(..2 * PAGE));
    let kind = dice.u64(..20);
    let (expected, found) = match kind {
        0..=4 => {
            let data = vec![1 + dice.u64(..255) as u8; length as usize];
            let mut options = OpenOptions::new();
            let done = options.write(true).create(true).truncate(false).open(real(&one));
            let done = done.and_then(|file| file.write_all_at(&data, at));
            (model.write(&one, at as usize, &data), done)
        }
        5..=6 => {
            let done = OpenOptions::new().write(true).open(real(&one)).and_then(|file| file.set_len(at));
            (model.resize(&one, at as usize), done)
        }
        7..=8 => (model.sync(&one), File::open(real(&one)).and_then(|file| file.sync_all())),
        9..=11 => (model.mkdir(&one), fs::create_dir(real(&one))),
        12 => (model.remove(&one, true), fs::remove_dir(real(&one))),
        13..=14 => (model.remove(&one, false), fs::remove_file(real(&one))),
        15 => (model.link(&one, &other), fs::hard_link(real(&one), real(&other))),
        _ => (model.rename(&one, &other), fs::rename(real(&one), real(&other))),
    };
    assert_eq!(found.is_ok(), expected, "{kind} {one} {other}: {found:?}");
}

/// As many rounds as requested, or enough to see most cases.
fn seeds() -> std::ops::Range<u64> {
    let rounds = std::env::var("STOREBENCH_POWER_CUT_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    0..rounds.unwrap_or(6)
}

#[test]
fn all_that_is_not_durable_is_forgotten() {
    for seed in seeds() {
        let Some(place) = TestMount::new() else { return };
        let (mut model, mut dice) = (Model::new(), Rng::with_seed(seed));
        for cut in 0..10 {
            for _ in 0..dice.u64(..80) {
                step(&place, &mut model, &mut dice);
            }
            compare(&place, &model, &format!("seed {seed}, before cut {cut}"));
            place.cut();
            model.cut();
            compare(&place, &model, &format!("seed {seed}, after cut {cut}"));
        }
    }
}

#[test]
fn what_is_durable_stays_and_of_the_rest_a_part_that_can_be() {
    for seed in seeds() {
        let Some(place) = TestMount::new() else { return };
        let (mut model, mut dice) = (Model::new(), Rng::with_seed(1000 + seed));
        for cut in 0..10 {
            for _ in 0..dice.u64(..80) {
                step(&place, &mut model, &mut dice);
            }
            place.fs.power_off().power_on(Keep::Some(dice.u64(..u64::MAX))).unwrap();
            assert!(model.take_over(&walk(&place)), "seed {seed}, cut {cut}");
        }
    }
}

#[test]
fn the_same_seed_leaves_the_same() {
    let left = |seed: u64| {
        let place = TestMount::new()?;
        let (mut model, mut dice) = (Model::new(), Rng::with_seed(7));
        for _ in 0..200 {
            step(&place, &mut model, &mut dice);
        }
        let forgotten = place.fs.power_off().power_on(Keep::Some(seed)).unwrap();
        Some((forgotten, walk(&place)))
    };
    let (first, again, other) = (left(1), left(1), left(2));
    assert_eq!(first, again);
    assert!(first.is_none() || first != other);
}
