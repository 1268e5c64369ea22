//! How the stores of a run say that they are set up.

use storebench_results::{SettingsResult, TrialResult};

use super::runner::Configuration;

/// What the prepared store of a configuration says, in its first trial. `None` if it says nothing, or if an earlier
/// trial has it. That a store cannot be asked is part of the result, and no reason to end the trial.
pub(super) fn own_settings(configuration: &Configuration, earlier: &[TrialResult]) -> Option<SettingsResult> {
    let known = earlier.iter().any(|trial| trial.configuration == configuration.name && trial.settings.is_some());
    if known { None } else { SettingsResult::of(configuration.store.own_settings()) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use storebench_engine::store::{
        AnyStore, Capabilities, Description, Layout, MemoryStore, Namespace, Prepare, Session, SessionOptions, Store,
        StoreError, StoreSettings,
    };

    use super::super::tests::{memory, quietly, request};

    const STUDY: &str = r#"
title = "Books"
repeats = 2
[collections.books]
count = 20
size = "300B"
fields = { text = { text = "fill" } }
[[phases]]
name = "load"
load = ["books"]
[[phases]]
name = "read"
mix = { read = 1 }
operations = 50
"#;

    /// A memory store that says how it is set up, or fails to.
    #[derive(Default)]
    struct Telling {
        inner: MemoryStore,
        fails: bool,
        asked: Arc<AtomicU32>,
    }

    impl Store for Telling {
        type Session = Box<dyn Session>;

        fn describe(&self) -> Description {
            Store::describe(&self.inner)
        }
        fn capabilities(&self) -> Capabilities {
            Store::capabilities(&self.inner)
        }
        fn inspect(&self) -> Result<Namespace, StoreError> {
            Store::inspect(&self.inner)
        }
        fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
            Store::prepare(&self.inner, layout, how)
        }
        async fn open(&self, options: &SessionOptions) -> Result<Box<dyn Session>, StoreError> {
            Ok(Box::new(Store::open(&self.inner, options).await?))
        }
        fn own_settings(&self) -> Result<StoreSettings, StoreError> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            if self.fails {
                return Err(StoreError::Failed("server://me:hush@host does not say".into()));
            }
            let mut settings = StoreSettings { memory_bytes: Some(7 << 20), ..StoreSettings::default() };
            settings.add("cache", "7MiB", Some(true));
            settings.add("admin_password", "hush", Some(true));
            Ok(settings)
        }
        fn remove(&self) -> Result<(), StoreError> {
            Store::remove(&self.inner)
        }
    }

    #[test]
    fn a_store_is_asked_once_and_what_it_cannot_say_ends_no_run() {
        let (telling, failing) = (Telling::default(), Telling { fails: true, ..Telling::default() });
        let asked = [&telling, &failing].map(|store| Arc::clone(&store.asked));
        let stores: Vec<(&str, Arc<dyn AnyStore>)> =
            vec![("telling", Arc::new(telling)), ("failing", Arc::new(failing)), ("silent", memory())];
        let result = quietly(&request(STUDY, stores, None)).unwrap().result;
        assert_eq!(asked.map(|asked| asked.load(Ordering::Relaxed)), [1, 1]);
        assert!(result.trials.len() == 6 && result.trials.iter().all(|trial| trial.failure.is_none()), "{result:#?}");
        let of = |store: &str| {
            let trials = result.trials.iter().filter(|trial| trial.store == store);
            trials.map(|trial| trial.settings.as_ref().map(|of| of.in_words())).collect::<Vec<_>>()
        };
        assert_eq!(of("telling"), [Some("memory 7.00 MiB, 1 setting changed (cache 7MiB)".to_owned()), None]);
        let unknown = "settings unknown: server://me:***@host does not say";
        assert_eq!(of("failing"), [Some(unknown.to_owned()), None]);
        assert_eq!(of("silent"), [None, None]);
    }
}
