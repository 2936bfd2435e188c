//! The machine a test ran on, as a report must state it.

use std::fs;

/// Processor, memory and kernel.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Machine {
    pub processor: String,
    pub cores: usize,
    pub memory_bytes: u64,
    pub kernel: String,
    /// What the kernel takes the machine below it for; empty for a real one.
    pub hypervisor: String,
}

impl Machine {
    /// This one.
    #[must_use]
    pub fn here() -> Machine {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let processors = read("/proc/cpuinfo");
        let value = |text: &str, key: &str| {
            let line = text.lines().find(|line| line.starts_with(key))?;
            line.split_once(':').map(|(_, value)| value.trim().to_string())
        };
        let is_virtual = value(&processors, "flags").is_some_and(|flags| flags.contains(" hypervisor"));
        let vendor = read("/sys/class/dmi/id/sys_vendor").trim().to_string();
        let unnamed = || "a virtual machine".to_string();
        let memory = value(&read("/proc/meminfo"), "MemTotal").unwrap_or_default();
        let kibibytes = memory.split_whitespace().next().and_then(|number| number.parse::<u64>().ok());
        Machine {
            processor: value(&processors, "model name").unwrap_or_else(|| std::env::consts::ARCH.into()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: kibibytes.unwrap_or(0) << 10,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_string(),
            hypervisor: match is_virtual {
                true if vendor.is_empty() => unnamed(),
                true => vendor,
                false => String::new(),
            },
        }
    }
}
