"""Volumes as local block devices: integrity, file systems, discard, crash, nothing left behind."""
import os
import random
import threading
import time

from cases import MIB, case, must, random_file, run, serving
from array_of_run import binary
from files_load import FileLoad
from outlive import outlive
from site_of_run import end_keepers, loops_below, mounts_below, wait_for

BLOCKS = (4096, 64 << 10, 1 << 20, 4 << 20)


@case
def direct_writes_through_the_device_compare_equal(site):
    """4 KiB, 64 KiB, 1 MiB and 4 MiB direct writes, one and many at once, come back as they were sent."""
    array = serving(site)
    source = random_file(site, "source", 64 * MIB)
    array.volume("v", "64MiB")
    device = array.attach("v")
    for size in BLOCKS:
        run("dd", "if=/dev/zero", f"of={device}", "bs=1M", "oflag=direct", "conv=fsync", "count=64")
        # One at a time, the smallest take a part only: a busy machine needs milliseconds for each.
        part = 4 * MIB if size == 4096 else 64 * MIB
        run("dd", f"if={source}", f"of={device}", f"bs={size}", "oflag=direct", f"count={part // size}")
        run("cmp", f"--bytes={part}", source, device)
        run("nbdcopy", array.uri("v"), site.file("back"))
        run("cmp", f"--bytes={part}", source, site.file("back"))
        os.remove(site.file("back"))
    for size, depth in ((64 << 10, 32), (1 << 20, 16), (4 << 20, 8)):
        run("fio", "--name=v", f"--filename={device}", "--ioengine=io_uring", "--direct=1", "--rw=randwrite",
            f"--bs={size}", "--size=64m", f"--iodepth={depth}", "--verify=crc32c", "--verify_fatal=1",
            "--do_verify=1", "--verify_state_save=0", "--output-format=json")
    run("dd", f"if={source}", f"of={device}", "bs=1M")  # through the page cache
    run("sync")
    run("dd", f"if={device}", "of=" + site.file("back"), "bs=1M", "iflag=direct")
    run("cmp", source, site.file("back"))
    array.run("detach", "v")
    array.check()


def file_system_case(site, kind, repair):
    """A tree of files is churned by several threads, checked, and checked again after a remount, a crash
    of the array, and on a clone."""
    array = serving(site, drive_mib=1536)
    array.volume("v", "8GiB")
    point = site.directory("mnt")
    device = array.attach("v", "--format", kind, "--mount", point)
    load = FileLoad(point, random.Random(kind), threads=4)
    load.churn(seconds=5)
    load.check("under load")
    run("sync", "-f", point)
    array.run("snapshot", "create", "s", "v")
    frozen = load.manifest()
    load.churn(seconds=3)
    load.check("after more")
    array.run("detach", "v")
    must(not mounts_below(point), f"{point} is still mounted")
    device = array.attach("v")
    run(*repair, device)
    array.run("detach", "v")
    array.attach("v", "--mount", point)
    load.check("after a remount")

    # The array dies: a pause for who writes. Then array and keeper die; files synced before must be there.
    churning = threading.Thread(target=load.churn, args=(4,))
    churning.start()
    time.sleep(1)
    array.kill()
    time.sleep(0.5)
    array.start()
    churning.join()
    load.check("after a crash of the array")
    run("sync", "-f", point)
    synced = load.manifest()
    array.kill()
    end_keepers(site.path)
    array.start()
    wait_for(lambda: any(mount == point for mount, _ in mounts_below(point)), 20, "the mount after a crash of both")
    load.check("after a crash of array and keeper", synced)
    array.run("detach", "v")
    device = array.attach("v")
    run(*repair, device)
    array.run("detach", "v")

    # The snapshot's clone shows the tree of that time.
    array.run("clone", "create", "c", "--from", "s")
    array.attach("c", "--mount", point)
    load.check("on the clone", frozen)
    array.run("detach", "c")
    array.check()


@case
def ext4_lives_on_a_volume(site):
    """ext4: churn, remount, crash of the array, clone: files equal, fsck clean."""
    file_system_case(site, "ext4", ("e2fsck", "-fn"))


@case
def xfs_lives_on_a_volume(site):
    """xfs: churn, remount, crash of the array, clone: files equal, xfs_repair finds nothing."""
    file_system_case(site, "xfs", ("xfs_repair", "-n"))


def written_bytes(array, volume):
    """Absent while it is counted anew."""
    for _ in range(300):
        written = array.json("volume", "show", volume).get("written_bytes")
        if written is not None:
            return written
        time.sleep(0.1)
    must(False, f"{volume}: written_bytes was not told for 30 s")


@case
def fstrim_gives_space_back(site):
    """Deleted files and fstrim: written bytes shrink, and the pool's free space comes back."""
    array = serving(site)
    array.volume("v", "2GiB")
    point = site.directory("mnt")
    array.attach("v", "--format", "ext4", "--mount", point)
    random_file(site, "mnt/big", 400 * MIB)
    run("sync", "-f", point)
    full = written_bytes(array, "v")
    must(full >= 400 * MIB, f"only {full} bytes are written")
    os.remove(point + "/big")
    run("sync", "-f", point)  # ext4 discards only what its journal has let go of
    run("fstrim", "-v", point)
    after = written_bytes(array, "v")
    must(after < full - 380 * MIB, f"fstrim: {full} bytes before, {after} after")
    array.run("detach", "v")


@case
def a_grown_volume_is_seen_by_its_device(site):
    """`volume resize` reaches the loop device, and the file system on it can grow."""
    array = serving(site)
    array.volume("v", "256MiB")
    point = site.directory("mnt")
    device = array.attach("v", "--format", "ext4", "--mount", point)
    random_file(site, "mnt/kept", 64 * MIB)
    array.run("volume", "resize", "v", "--size", "512MiB")
    size = int(run("blockdev", "--getsize64", device).stdout)
    must(size == 512 * MIB, f"the device has {size} bytes")
    array.run("detach", "v")
    device = array.attach("v")
    # Growing while mounted needs a capability that containers lack, so it is grown detached.
    run("e2fsck", "-fp", device)
    run("resize2fs", device)
    array.run("detach", "v")
    array.attach("v", "--mount", point)
    stat = os.statvfs(point)
    must(stat.f_blocks * stat.f_frsize > 400 * MIB, "the file system did not grow")
    array.run("detach", "v")
    run("e2fsck", "-fn", array.attach("v"))
    array.run("detach", "v")


@case
def a_stop_with_attached_volumes_leaves_nothing_behind(site):
    """A stop that detaches leaves no mount, loop device or FUSE connection. The next start mounts again, and so it
    does after a crash of array and keeper."""
    array = serving(site)
    array.volume("v", "1GiB")
    point = site.directory("mnt")
    array.attach("v", "--format", "ext4", "--mount", point)
    with open(point + "/file", "w", encoding="utf-8") as f:
        f.write("kept")
    array.run("stop", "--detach")
    left = mounts_below(site.path) + loops_below(site.path)
    must(not left, f"after a stop that detaches: {left}")
    array.start()
    wait_for(lambda: os.path.exists(point + "/file"), 20, "the mount after a restart")
    with open(point + "/file", encoding="utf-8") as f:
        must(f.read() == "kept", "the file changed")
    array.kill()
    end_keepers(site.path)
    array.start()
    wait_for(lambda: os.path.exists(point + "/file"), 20, "the mount after a crash of array and keeper")
    must(len(loops_below(site.path)) == 1, f"after a crash of both and a start: {loops_below(site.path)}")
    with open(point + "/file", encoding="utf-8") as f:
        must(f.read() == "kept", "the file changed")
    array.run("detach", "v")
    array.stop()
    left = mounts_below(site.path) + loops_below(site.path)
    must(not left, f"at the end: {left}")


@case
def a_database_outlives_its_array(site):
    """PostgreSQL under pgbench while the array is killed, stopped, upgraded, and loses its keeper: no error."""
    print("    ", outlive(site, "postgres", "ext4", 5, ("kill", "term", "upgrade", "keeper"), [binary()], seed=3))


@case
def verified_writes_and_discards_outlive_the_array(site):
    """fio at depth 32 with discards beside it, the same: every block as it was written."""
    print("    ", outlive(site, "fio", None, 6, ("kill", "kill", "term", "upgrade", "keeper"), [binary()], seed=2))
