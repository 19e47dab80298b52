//! One connection from its greeting to its end.

use std::future::Future;
use std::pin::pin;
use std::{io, time::Duration};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;

use super::clients::Client;
use super::session::Session;
use super::{NbdServer, Stop, stopped};
use crate::Violation;
use crate::export::{Export, OpenError};
use crate::negotiation::{Agreed, Negotiation, NegotiationOutput, greeting};

/// Why a connection ended otherwise than by the client's word.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectionError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Violation(#[from] Violation),
    #[error("the client has not chosen an export after {0:?}")]
    SlowNegotiation(Duration),
    #[error("the client owes bytes, or takes none, since {0:?}")]
    Stalled(Duration),
    #[error("operations are given up: the stop takes longer than {0:?}")]
    Drained(Duration),
}

/// Serves until the connection ends.
pub(super) async fn run<S>(server: &NbdServer, mut socket: S, mut stop: watch::Receiver<Stop>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let mut entered = None;
    let ended = match negotiate(server, &mut socket, &mut stop, &mut entered).await {
        Ok(Some(agreed)) => {
            let client = entered.as_ref().expect("a client that has agreed has entered");
            Session::new(server, &mut socket, &*client.export, agreed, stop).run().await
        }
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    if let Err(error) = ended {
        // The client went away, or is told by the end of the connection.
        tracing::debug!(%error, "connection ended");
    }
    // An error here says that the client has ended the connection first.
    drop(socket.shutdown().await);
    drop(socket);
    if let Some(client) = entered {
        server.clients.leave(client).await;
    }
}

/// Negotiates; `None` if the client leaves instead. From the moment that a client has entered it stands in `entered`.
async fn negotiate<S>(
    server: &NbdServer,
    socket: &mut S,
    stop: &mut watch::Receiver<Stop>,
    entered: &mut Option<Client>,
) -> Result<Option<Agreed>, ConnectionError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let limit = server.config.timeouts.negotiation;
    let mut deadline = pin!(tokio::time::sleep(limit));
    let mut timed = Timed { deadline: &mut deadline, limit };
    let mut negotiation = Negotiation::default();
    timed.run(socket.write_all(&greeting())).await?;
    loop {
        match negotiation.step()? {
            NegotiationOutput::NeedBytes => {
                let output = negotiation.take_output();
                timed.run(socket.write_all(&output)).await?;
                let read = async {
                    tokio::select! {
                        biased;
                        _ = stopped(stop) => Ok(None),
                        read = socket.read_buf(negotiation.input()) => read.map(Some),
                    }
                };
                match timed.run(read).await? {
                    Some(0) => return Ok(None),
                    Some(_) => {}
                    None => {
                        refuse_rest(&mut negotiation, socket, server.config.timeouts.grace).await?;
                        return Ok(None);
                    }
                }
            }
            NegotiationOutput::List => negotiation.listed(server.exports.list().await),
            NegotiationOutput::Find { name } => {
                let found = server.exports.find(&name).await;
                negotiation.found(found.as_ref().map(|export| (export.name(), export.facts())).map_err(OpenError::clone));
            }
            NegotiationOutput::Enter { name } => {
                let answer = match server.exports.find(&name).await {
                    Ok(found) => server.clients.enter(found).await,
                    Err(error) => Err(error),
                };
                let agreed = match answer {
                    Ok(client) => {
                        let export: &dyn Export = &*entered.insert(client).export;
                        negotiation.entered(Ok((export.name(), export.facts())))
                    }
                    Err(error) => negotiation.entered(Err(error)),
                };
                if agreed.is_some() {
                    timed.run(socket.write_all(&negotiation.take_output())).await?;
                    return Ok(agreed);
                }
            }
            NegotiationOutput::End => {
                timed.run(socket.write_all(&negotiation.take_output())).await?;
                return Ok(None);
            }
        }
    }
}

/// The server stops: what the client still asks for is refused for a while.
async fn refuse_rest<S>(negotiation: &mut Negotiation, socket: &mut S, grace: Duration) -> Result<(), ConnectionError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let mut deadline = pin!(tokio::time::sleep(grace));
    let mut timed = Timed { deadline: &mut deadline, limit: grace };
    negotiation.stop();
    loop {
        let is_over = negotiation.step()? == NegotiationOutput::End;
        let output = negotiation.take_output();
        timed.run(socket.write_all(&output)).await?;
        if is_over || timed.run(socket.read_buf(negotiation.input())).await? == 0 {
            return Ok(());
        }
    }
}

/// Socket operations until a deadline.
struct Timed<'a, D> {
    deadline: &'a mut D,
    limit: Duration,
}

impl<D: Future<Output = ()> + Unpin> Timed<'_, D> {
    async fn run<T>(&mut self, operation: impl Future<Output = io::Result<T>>) -> Result<T, ConnectionError> {
        tokio::select! {
            biased;
            done = operation => Ok(done?),
            () = &mut *self.deadline => Err(ConnectionError::SlowNegotiation(self.limit)),
        }
    }
}
