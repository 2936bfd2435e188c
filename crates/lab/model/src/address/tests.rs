//! Addresses: defaults, the way back to text, and errors that help.

use super::*;

fn error(address: &str) -> String {
    Spec::parse(address).unwrap_err().to_string()
}

#[test]
fn what_is_left_out_has_its_default() {
    assert_eq!(Spec::parse("sim-hdd:"), Ok(Spec::default()));
    let spec = Spec::parse("sim-hdd:drives=14,model=10k-300g,raid=5,chunk=128k,flash=4GiB").unwrap();
    assert_eq!((spec.drives, spec.model.name, spec.raid), (14, "10k-300g", Raid::Parity));
    assert_eq!((spec.chunk_bytes, spec.window), (128 << 10, 2));
    assert_eq!(spec.flash, Flash { size_bytes: 4 << 30, ..Flash::default() });
}

#[test]
fn every_key_is_read_and_told_again() {
    let address = "sim-hdd:drives=6,model=7k2,raid=6,chunk=256k,discipline=cscan,window=8,depth=16,\
                   overhead=120us,write_cache=512MiB,high_water=70%,read_cache=25GB,flash=4GiB,\
                   flash_block=16k,flash_admit=second,flash_latency=90us,flash_rate=2GB/s";
    let spec = Spec::parse(address).unwrap();
    assert_eq!(spec.address(), address);
    assert_eq!(spec.write_cache_bytes, 512 << 20);
    assert_eq!(spec.flash.bytes_per_second, 2_000_000_000);
    assert_eq!(Spec::default().address(), "sim-hdd:drives=2,model=15k-300g,raid=10,window=2");
    for key in &KEYS {
        assert!(address.contains(&format!("{}=", key.name)), "{} is not tried here", key.name);
    }
}

#[test]
fn mistakes_are_named_with_what_is_allowed() {
    let unknown = error("sim-hdd:drive=2");
    let said = "unknown key `drive`; the nearest known key is `drives`; all are drives, model, raid, chunk, ";
    assert!(unknown.starts_with(said), "{unknown}");
    assert!(error("sim-hdd:flash_admits=first").contains("the nearest known key is `flash_admit`;"));
    assert_eq!(error("sim-hdd:raid=7"), "`raid=7`: allowed is `0`, `1`, `10`, `5` or `6`");
    assert_eq!(error("sim-hdd:model=15k"), "`model=15k`: allowed is `15k-300g`, `10k-300g` or `7k2`");
    assert_eq!(error("sim-hdd:chunk=64"), "`chunk=64`: allowed is a size, as in 0, 64k, 512MiB or 25GB");
    assert_eq!(error("sim-hdd:drives"), "`drives=`: allowed is a count of working drives, without spares");
    assert_eq!(error("sim-hdd:window=2,window=3"), "`window` is given twice");
    assert_eq!(error("sim-hdd:drives=2,raid=5"), "`drives=2` with `raid=5`: allowed are 3 to 10000");
    assert_eq!(error("sim-hdd:window=40"), "`window=40` with `depth=32`: allowed are 1 to the depth");
    assert_eq!(error("sim-hdd:window=0"), "`window=0` with `depth=32`: allowed are 1 to the depth");
    assert_eq!(error("hdd:drives=2"), "`hdd:drives=2` does not begin with `sim-hdd:`");
    assert!(error("sim-hdd:chunk=0").starts_with("a chunk of 0 bytes"));
    assert!(error("sim-hdd:high_water=0%").starts_with("`high_water=0`"));
    for bad in ["overhead=1", "overhead=-1us", "high_water=0.8", "flash_rate=1GB", "write_cache=1g"] {
        assert!(error(&format!("sim-hdd:{bad}")).starts_with(&format!("`{bad}`: allowed is ")), "{bad}");
    }
    assert!(error("sim-hdd:read_cache=99999999999TiB").contains("allowed is a size"));
}

#[test]
fn an_array_is_told_in_words() {
    let words = |address: &str| Spec::parse(address).unwrap().in_words();
    assert_eq!(words("sim-hdd:drives=7"), "7 x 15K 300 GB drives, RAID 10, reorder window 2; simulated");
    assert_eq!(
        words("sim-hdd:drives=1,raid=0,model=7k2,discipline=fcfs"),
        "1 x 7.2K 2 TB drive, RAID 0, first come first served; simulated"
    );
    assert_eq!(
        words("sim-hdd:model=10k-300g,raid=1,discipline=cscan,write_cache=1GiB,read_cache=64k,flash=4GiB"),
        "2 x 10K 300 GB drives, RAID 1, upward sweep over 2 waiting, write cache 1 GiB, \
         read cache 64 KiB, flash cache 4 GiB filled on first read; simulated"
    );
}

#[test]
fn sizes_and_times_of_other_addresses_are_read_alike() {
    assert_eq!([size("20MB"), size("64k"), size("0")], [Some(20_000_000), Some(64 << 10), Some(0)]);
    assert_eq!([size("20"), size("MB"), size("1.5GB"), size("99999999TB")], [None; 4]);
    assert_eq!([time("1ms"), time("0.1ms")], [1000, 100].map(|micros| Some(Duration::from_micros(micros))));
    assert_eq!([time("1"), time("-1ms"), time("1min")], [None; 3]);
}
