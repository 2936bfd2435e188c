//! Sockets: echo, both directions at once, stale socket files, endings.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use super::{Scratch, on_each_driver};
use crate::{Address, Listener, Peer, Priority, Runtime, Stream};

fn serve_echo(runtime: &Runtime, listener: Listener) {
    let inside = runtime.clone();
    let _detached = runtime.spawn(Priority::Host, async move {
        while let Ok(stream) = listener.accept().await {
            let echoing = inside.clone();
            let _detached = inside.spawn(Priority::Host, async move { echo(&echoing, stream).await });
        }
    });
}

async fn echo(runtime: &Runtime, stream: Stream) {
    loop {
        let (result, mut buf) = stream.receive(runtime.buffer(32 << 10)).await;
        match result {
            Ok(0) | Err(_) => return,
            Ok(length) => buf.set_len(length),
        }
        if stream.send(buf).await.0.is_err() {
            return;
        }
    }
}

/// Sends and receives at the same time: more than the sockets' own buffers hold.
async fn converse(runtime: &Runtime, stream: Stream) {
    const ROUNDS: usize = 40;
    const LENGTH: usize = 300_000;
    let (sending, inside) = (stream.clone(), runtime.clone());
    let sender = runtime.spawn(Priority::Host, async move {
        for round in 0..ROUNDS {
            let mut buf = inside.buffer(LENGTH);
            buf.fill(round as u8);
            sending.send(buf).await.0.unwrap();
        }
    });
    for round in 0..ROUNDS {
        let (result, buf) = stream.receive_exact(runtime.buffer(LENGTH)).await;
        result.unwrap();
        assert!(buf.iter().all(|&byte| byte == round as u8));
    }
    sender.await;
    stream.shutdown();
    assert_eq!(stream.receive(runtime.buffer(10)).await.0.unwrap(), 0);
}

#[test]
fn an_echo_over_a_unix_socket_returns_every_byte() {
    on_each_driver(|runtime| async move {
        let scratch = Scratch::new();
        let path = scratch.file("socket");
        serve_echo(&runtime, runtime.listen_unix(&path).unwrap());
        converse(&runtime, runtime.connect_unix(&path).await.unwrap()).await;
    });
}

#[test]
fn a_stream_tells_who_is_at_its_other_end() {
    on_each_driver(|runtime| async move {
        let scratch = Scratch::new();
        let path = scratch.file("socket");
        let listener = runtime.listen_unix(&path).unwrap();
        let near = runtime.connect_unix(&path).await.unwrap();
        let far = listener.accept().await.unwrap();
        let Some(Peer::Process { process_id, .. }) = far.peer() else { panic!("{:?}", far.peer()) };
        assert_eq!(process_id, std::process::id());
        drop(near);
        let listener = runtime.listen_tcp("127.0.0.1:0".parse().unwrap()).unwrap();
        let Address::Tcp(address) = listener.local_addr() else { panic!("not a TCP listener") };
        let near = runtime.connect_tcp(address).await.unwrap();
        let far = listener.accept().await.unwrap();
        assert_eq!(near.peer(), Some(Peer::Tcp(address)));
        assert!(matches!(far.peer(), Some(Peer::Tcp(from)) if from.ip() == address.ip()));
    });
}

#[test]
fn many_echoes_over_tcp_run_side_by_side() {
    on_each_driver(|runtime| async move {
        let listener = runtime.listen_tcp("127.0.0.1:0".parse().unwrap()).unwrap();
        let Address::Tcp(address) = listener.local_addr() else { panic!("not a TCP listener") };
        serve_echo(&runtime, listener);
        let mut tasks = Vec::new();
        for _ in 0..8 {
            let inside = runtime.clone();
            tasks.push(runtime.spawn(Priority::Host, async move {
                converse(&inside, inside.connect_tcp(address).await.unwrap()).await;
            }));
        }
        for task in tasks {
            task.await;
        }
    });
}

#[test]
fn a_stale_socket_file_is_replaced_and_a_live_one_is_not() {
    on_each_driver(|runtime| async move {
        let scratch = Scratch::new();
        let path = scratch.file("socket");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let listener = runtime.listen_unix(&path).unwrap();
        let error = runtime.listen_unix(&path).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        assert!(!std::path::Path::new(&path).exists());
        std::fs::write(&path, "not a socket").unwrap();
        assert!(runtime.listen_unix(&path).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"not a socket");
    });
}

#[test]
fn a_receive_waiting_without_end_is_woken_by_shutdown_and_freed_by_drop() {
    on_each_driver(|runtime| async move {
        let scratch = Scratch::new();
        let path = scratch.file("socket");
        let listener = Rc::new(runtime.listen_unix(&path).unwrap());
        let near = runtime.connect_unix(&path).await.unwrap();
        let far = listener.accept().await.unwrap();
        let (waiting, inside) = (near.clone(), runtime.clone());
        let task = runtime
            .spawn(Priority::Host, async move { waiting.receive(inside.buffer(100)).await.0.unwrap() });
        runtime.sleep(Duration::from_millis(5)).await;
        near.shutdown();
        assert_eq!(task.await, 0);
        let mut receive = Box::pin(far.receive(runtime.buffer(100)));
        let mut accept = Box::pin(listener.accept());
        assert_eq!(far.receive(runtime.buffer(100)).await.0.unwrap(), 0);
        std::future::poll_fn(|context| {
            let _ = receive.as_mut().poll(context);
            let _ = accept.as_mut().poll(context);
            std::task::Poll::Ready(())
        })
        .await;
        drop((receive, accept));
        while runtime.shard.operations.in_flight() > 0 {
            runtime.yield_now().await;
        }
    });
}

#[test]
fn a_peer_that_leaves_early_is_an_error_not_a_hang() {
    on_each_driver(|runtime| async move {
        let scratch = Scratch::new();
        let path = scratch.file("socket");
        let listener = runtime.listen_unix(&path).unwrap();
        let near = runtime.connect_unix(&path).await.unwrap();
        let far = listener.accept().await.unwrap();
        near.send(runtime.buffer_from(b"abc")).await.0.unwrap();
        drop(near);
        let (result, buf) = far.receive_exact(runtime.buffer(10)).await;
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(&buf[..3], b"abc");
        assert!(far.send(runtime.buffer(1 << 20)).await.0.is_err());
        assert!(runtime.connect_unix(&scratch.file("nobody")).await.is_err());
    });
}
