//! A session: one connection to the process that hosts the store.

use std::task::{Context, Poll};

use storebench_engine::store::{
    BatchBuf, Completions, OpError, OpKind, Reject, Request, Session, SessionCounters, Token,
};

use super::wire::{self, Ask, Ended};
use crate::connection::{Answers, Link};
use crate::net::lost;

/// An awaited answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Awaited {
    token: Token,
    kind: OpKind,
    abandoned: bool,
}

/// A session.
pub(crate) struct HostedSession {
    pub(super) link: Link<Awaited>,
    in_flight: usize,
    rows: BatchBuf,
    rejects: Vec<Reject>,
}

impl HostedSession {
    pub(super) fn over(link: Link<Awaited>) -> Self {
        Self { link, in_flight: 0, rows: BatchBuf::new(), rejects: Vec::new() }
    }
}

impl Answers for HostedSession {
    type Awaited = Awaited;

    fn link(&mut self, _: usize) -> &mut Link<Awaited> {
        &mut self.link
    }

    fn take(&mut self, _: usize, out: &mut dyn Completions) -> Result<(), String> {
        loop {
            let Self { link, in_flight, rows, rejects } = self;
            let Some((front, input)) = link.pipe.front() else { return Ok(()) };
            let awaited = *front;
            let Some((frame, used)) = wire::frame(input)? else { return Ok(()) };
            let ended: Ended<'_> = postcard::from_bytes(frame).map_err(|e| format!("cannot decode the answer: {e}"))?;
            if !awaited.abandoned {
                *in_flight -= 1;
                out.complete(
                    awaited.token,
                    match &ended {
                        Ok(answer) => Ok(answer.reply(rows, rejects)),
                        Err((kind, message)) => Err(OpError::new(*kind, message.clone())),
                    },
                );
            }
            link.pipe.consume(used);
            link.pipe.pop();
        }
    }

    fn lose(&mut self, _: usize, why: &str, out: &mut dyn Completions) {
        for (awaited, sent) in self.link.pipe.lose() {
            if !awaited.abandoned {
                self.in_flight -= 1;
                let error = if sent { lost(awaited.kind, why) } else { self.link.not_connected() };
                out.complete(awaited.token, Err(error));
            }
        }
    }
}

#[deny(clippy::missing_trait_methods)]
impl Session for HostedSession {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        if !self.is_ready(0, out) {
            return out.complete(token, Err(self.link.not_connected()));
        }
        let awaited = Awaited { token, kind: request.op.kind(), abandoned: false };
        if let Err(error) = wire::push(&Ask::of(request), self.link.pipe.request(awaited, true)) {
            self.link.pipe.take_back();
            let why = format!("cannot encode the operation: {error}");
            return out.complete(token, Err(OpError::new(storebench_engine::store::ErrorKind::Refused, why)));
        }
        self.in_flight += 1;
    }

    fn flush(&mut self) {
        self.link.flush();
    }

    fn poll(&mut self, cx: &mut Context<'_>, out: &mut dyn Completions) -> Poll<()> {
        if self.link.has_news(cx) {
            self.advance(0, out);
        }
        if self.in_flight == 0 { Poll::Ready(()) } else { Poll::Pending }
    }

    fn wake_at_ns(&self) -> Option<u64> {
        None
    }

    fn counters(&self) -> SessionCounters {
        SessionCounters { disconnects: self.link.disconnects(), splits: 0 }
    }

    fn abandon(&mut self, token: Token) {
        let mut found = false;
        for awaited in self.link.pipe.awaited().filter(|a| a.token == token && !a.abandoned) {
            awaited.abandoned = true;
            found = true;
        }
        if found {
            self.link.abandoned();
            self.in_flight -= 1;
        }
    }
}
