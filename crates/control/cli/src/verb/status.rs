//! `ashlar status`: the array as a whole.

use ashlar_api::{DoorState, Status as StatusView};

use crate::Context;
use crate::failure::Result;
use crate::output::{fields, size, table};

/// Show the array as a whole: pools, doors, memory, processor time.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar status --json | jq .memory_resident_bytes")]
pub struct Status {}

impl Status {
    pub fn run(self, context: &Context) -> Result<()> {
        Ok(context.output.print(&context.client()?.status()?, text)?)
    }
}

fn text(status: &StatusView) -> String {
    let mut text = fields(&[
        ("version", status.version.clone()),
        ("state", status.state_directory.clone()),
        ("process", status.process_id.to_string()),
        ("up", uptime(status.uptime_seconds)),
        ("io", status.io_driver.clone()),
        ("memory", size(status.memory_resident_bytes)),
        ("processor", format!("{:.1} s", status.cpu_micros as f64 / 1e6)),
        ("attached", format!("{} volumes", status.attachment_count)),
    ]);
    let doors: Vec<Vec<String>> = status
        .doors
        .iter()
        .map(|door| {
            let state = match door.state {
                DoorState::Serving => "serving",
                DoorState::Idle => "idle",
                DoorState::Off => "off",
                DoorState::Failed => "failed",
            };
            vec![
                door.name.clone(),
                state.to_string(),
                door.transport.clone(),
                door.client_count.map_or_else(|| "-".to_string(), |count| count.to_string()),
                door.address.clone(),
                door.reason.clone().unwrap_or_default(),
            ]
        })
        .collect();
    text.push('\n');
    text.push_str(&table(&["DOOR", "STATE", "TRANSPORT", "CLIENTS", "ADDRESS", "REASON"], &[3], &doors));
    let pools: Vec<Vec<String>> = status
        .pools
        .iter()
        .map(|pool| {
            vec![
                pool.name.clone(),
                pool.state.name().to_string(),
                size(pool.physical_bytes),
                size(pool.free_bytes),
                format!("{} %", pool.full_percent),
                pool.volume_count.to_string(),
                pool.snapshot_count.to_string(),
                pool.reason.clone().unwrap_or_default(),
            ]
        })
        .collect();
    text.push('\n');
    let header = ["POOL", "STATE", "PHYSICAL", "FREE", "FULL", "VOLUMES", "SNAPSHOTS", "REASON"];
    text.push_str(&table(&header, &[2, 3, 4, 5, 6], &pools));
    text
}

fn uptime(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}
