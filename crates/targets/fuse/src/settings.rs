//! What an operator may change about the FUSE target.

/// Which way requests travel between the kernel and us.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TransportChoice {
    /// Read and write on `/dev/fuse`: a successor can take over what a dead server left.
    #[default]
    Classic,
    /// FUSE over io_uring where kernel and driver offer it, classic otherwise. It costs less, and open
    /// files do not outlive their server.
    Uring,
}

/// Settings of one mount; a change needs a new mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Which transport to use.
    pub transport: TransportChoice,
    /// Requests one CPU's queue holds at once, 1 to 1024. Default 32: the depth a loop device with a
    /// database above it reaches; beyond it requests wait in the kernel and lose nothing.
    pub queue_depth: u16,
    /// Largest read or write in one request, bytes, a power of two from 8 KiB to 1 MiB. Default
    /// 256 KiB: the loop driver splits larger requests anyway, and memory is queues x depth x this.
    pub payload_bytes: u32,
    /// Cap on the memory of all queues, bytes. Default 256 MiB. A machine with many CPUs gets a
    /// smaller queue depth, never less than 1.
    pub ring_bytes_max: usize,
    /// Background requests in flight, 1 to 65535. Default 256: asynchronous direct I/O counts as background,
    /// and the kernel's own default of 12 would throttle the loop device.
    pub background_requests_max: u16,
    /// Background requests at which the kernel calls us congested. Default 192, three quarters.
    pub congestion_threshold: u16,
    /// Requests the classic transport works on at once. Default 256, as many as the kernel sends.
    pub classic_requests_max: usize,
    /// What was written is durable when the write is answered, so nobody needs to ask for it. FSYNC is then
    /// answered with ENOSYS, whereupon the kernel takes every further one for done without asking
    /// (`no_fsync` in fs/fuse/file.c): a commit of a database costs one way to us and back instead of
    /// two. Default off: flushes reach the device.
    pub is_write_durable: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            transport: TransportChoice::Classic,
            queue_depth: 32,
            payload_bytes: 256 << 10,
            ring_bytes_max: 256 << 20,
            background_requests_max: 256,
            congestion_threshold: 192,
            classic_requests_max: 256,
            is_write_durable: false,
        }
    }
}

impl Settings {
    /// The same settings with every value inside its range.
    #[must_use]
    pub fn clamped(mut self) -> Settings {
        self.queue_depth = self.queue_depth.clamp(1, 1024);
        self.payload_bytes = self.payload_bytes.clamp(8 << 10, 1 << 20).next_power_of_two();
        self.background_requests_max = self.background_requests_max.max(1);
        self.congestion_threshold = self.congestion_threshold.clamp(1, self.background_requests_max);
        self.classic_requests_max = self.classic_requests_max.clamp(1, 4096);
        self
    }

    /// Queue depth that keeps `queues` queues under the memory cap.
    #[must_use]
    pub fn depth_for(&self, queues: usize) -> u16 {
        let per_level = queues.max(1) * self.payload_bytes as usize;
        let affordable = (self.ring_bytes_max / per_level).clamp(1, usize::from(u16::MAX));
        self.queue_depth.min(affordable as u16).max(1)
    }
}
