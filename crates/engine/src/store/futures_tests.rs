use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::Wake;

use super::super::{CollectionId, Op, Reply};
use super::*;

/// Controls when each future ends.
#[derive(Default)]
struct Hand {
    wakers: Vec<Option<Waker>>,
    done: Vec<bool>,
    polls: Vec<u32>,
    dropped: Vec<usize>,
}

struct Held {
    number: usize,
    hand: Rc<RefCell<Hand>>,
}

impl Future for Held {
    type Output = Result<OwnedReply, OpError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut hand = self.hand.borrow_mut();
        hand.polls[self.number] += 1;
        if hand.done[self.number] {
            return Poll::Ready(Ok(OwnedReply::documents(u32::try_from(self.number).unwrap())));
        }
        hand.wakers[self.number] = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.hand.borrow_mut().dropped.push(self.number);
    }
}

struct Client(Rc<RefCell<Hand>>);

impl Respond for Client {
    type Future = Held;

    fn respond(&mut self, _: &Request<'_>) -> Held {
        let mut hand = self.0.borrow_mut();
        hand.wakers.push(None);
        hand.done.push(false);
        hand.polls.push(0);
        Held { number: hand.done.len() - 1, hand: Rc::clone(&self.0) }
    }
}

/// Finds nothing, at once.
struct Nothing;

impl Respond for Nothing {
    type Future = std::future::Ready<Result<OwnedReply, OpError>>;

    fn respond(&mut self, _: &Request<'_>) -> Self::Future {
        std::future::ready(Err(OpError::not_found()))
    }
}

fn finish(hand: &Rc<RefCell<Hand>>, number: usize) {
    let waker = {
        let mut hand = hand.borrow_mut();
        hand.done[number] = true;
        hand.wakers[number].take()
    };
    waker.expect("it was polled").wake();
}

struct Count(std::sync::atomic::AtomicU32);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

const REQUEST: Request<'static> = Request { collection: CollectionId(0), op: Op::Read { key: "a" }, contents: true };

#[test]
fn futures_complete_in_the_order_they_end_and_only_the_woken_are_polled() {
    let hand = Rc::<RefCell<Hand>>::default();
    let mut session = FutureSession::new(Client(Rc::clone(&hand)));
    let mut seen = Vec::new();
    let mut out = |token: Token, result: Result<Reply<'_>, OpError>| seen.push((token.0, result.unwrap().documents));
    for token in 0..4 {
        session.submit(&REQUEST, Token(token), &mut out);
    }
    let wakes = Arc::new(Count(0.into()));
    let waker = Waker::from(Arc::clone(&wakes));
    let mut cx = Context::from_waker(&waker);
    assert!(session.poll(&mut cx, &mut out).is_pending());
    assert_eq!(hand.borrow().polls, [1, 1, 1, 1]);

    finish(&hand, 2);
    finish(&hand, 0);
    assert!(wakes.0.load(Ordering::Relaxed) >= 1, "the session's caller is woken");
    assert!(session.poll(&mut cx, &mut out).is_pending());
    assert_eq!(hand.borrow().polls, [2, 1, 2, 1]);
    finish(&hand, 1);
    finish(&hand, 3);
    assert!(session.poll(&mut cx, &mut out).is_ready());
    assert_eq!(seen, [(2, 2), (0, 0), (1, 1), (3, 3)]);
}

#[test]
fn abandoning_drops_the_future_and_its_late_wake_harms_nobody() {
    let hand = Rc::<RefCell<Hand>>::default();
    let mut session = FutureSession::new(Client(Rc::clone(&hand)));
    let mut seen = Vec::new();
    let mut out = |token: Token, _: Result<Reply<'_>, OpError>| seen.push(token.0);
    let mut cx = Context::from_waker(Waker::noop());
    session.submit(&REQUEST, Token(7), &mut out);
    session.abandon(Token(8));
    assert!(hand.borrow().dropped.is_empty(), "another token abandons nothing");
    session.abandon(Token(7));
    assert_eq!(hand.borrow().dropped, [0]);
    assert!(session.poll(&mut cx, &mut out).is_ready());

    // The place and even the token are reused. The waker of the old future wakes the place of the new one.
    session.submit(&REQUEST, Token(7), &mut out);
    finish(&hand, 0);
    assert!(session.poll(&mut cx, &mut out).is_pending());
    finish(&hand, 1);
    assert!(session.poll(&mut cx, &mut out).is_ready());
    assert_eq!(seen, [7]);
    assert_eq!(session.places.len(), 1, "the place was used again");
}

#[test]
fn a_future_that_is_ready_at_once_completes_within_submit() {
    let mut session = FutureSession::new(Nothing);
    let mut seen = 0;
    session.submit(&REQUEST, Token(1), &mut |_: Token, result: Result<Reply<'_>, OpError>| {
        assert_eq!(result.unwrap_err(), OpError::not_found());
        seen += 1;
    });
    assert_eq!(seen, 1);
    assert!(
        session
            .poll(&mut Context::from_waker(Waker::noop()), &mut |_: Token, _: Result<Reply<'_>, OpError>| {})
            .is_ready()
    );
}
