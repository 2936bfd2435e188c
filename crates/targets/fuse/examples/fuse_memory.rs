//! Serves one volume in memory as a FUSE file until stdin closes, to measure the door alone.
//!
//! `fuse_memory DIRECTORY SIZE_GIB [auto|classic] [uring|threads]`; the file is `DIRECTORY/v`.

use std::process::ExitCode;
use std::rc::Rc;

use ashlar_block::{BlockDevice, Catalogue};
use ashlar_fuse::{FuseServer, Settings, TransportChoice};
use ashlar_layers::MemoryDevice;
use ashlar_runtime::{DriverChoice, Runtime, ShardSettings, start_shard};
use ashlar_telemetry::Registry;

struct OneVolume(Rc<MemoryDevice>);

impl Catalogue for OneVolume {
    fn device(&self, name: &str) -> Option<Rc<dyn BlockDevice>> {
        (name == "v").then(|| self.0.clone() as Rc<dyn BlockDevice>)
    }

    fn names(&self) -> Vec<String> {
        vec!["v".to_string()]
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, size, rest @ ..] = arguments.as_slice() else { return usage() };
    let Ok(size_gib) = size.parse::<u64>() else { return usage() };
    let has = |word: &str| rest.iter().any(|argument| argument == word);
    let transport = if has("classic") { TransportChoice::Classic } else { TransportChoice::Auto };
    let driver = if has("threads") { DriverChoice::Threads } else { DriverChoice::Auto };
    let settings = ShardSettings { driver, ..ShardSettings::default() };
    let directory = directory.clone();
    let started = start_shard(settings, move |runtime| {
        Box::pin(async move {
            if let Err(error) = serve(&runtime, &directory, size_gib, transport).await {
                eprintln!("{error}");
            }
        })
    });
    match started {
        Ok(thread) => thread.join(),
        Err(error) => eprintln!("start a shard: {error}"),
    }
    ExitCode::SUCCESS
}

async fn serve(
    runtime: &Runtime,
    directory: &str,
    size_gib: u64,
    transport: TransportChoice,
) -> ashlar_fuse::Result<()> {
    let volume = Rc::new(OneVolume(Rc::new(MemoryDevice::new(size_gib << 30, 512))));
    let settings = Settings { transport, ..Settings::default() };
    let server = FuseServer::mount(runtime, directory, volume, settings, Rc::new(Registry::new())).await?;
    eprintln!("{}", server.transport_line());
    runtime.run_blocking(|| std::io::stdin().lines().for_each(drop)).await;
    server.unmount().await
}

fn usage() -> ExitCode {
    eprintln!("usage: fuse_memory DIRECTORY SIZE_GIB [auto|classic] [uring|threads]");
    ExitCode::from(2)
}
