//! NBD over TLS by real clients: libnbd and qemu. Who comes in, who does not, and what they read and write.

#![allow(clippy::unwrap_used)]

mod support;

use std::io::Read;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use serde_json::Value;
use support::{Array, Done, done, wait_until};

/// An authority, and what it signs.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn sign(
        &self,
        names: &[&str],
        purpose: ExtendedKeyUsagePurpose,
        years: std::ops::Range<i32>,
    ) -> (String, String) {
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![purpose];
        params.not_before = rcgen::date_time_ymd(years.start, 1, 1);
        params.not_after = rcgen::date_time_ymd(years.end, 1, 1);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }

    /// A directory as libnbd and qemu want it: this client's certificate, and who signed the server's.
    fn directory(&self, path: PathBuf, years: std::ops::Range<i32>, of_server: &Authority) -> String {
        let (certificate, key) = self.sign(&[], ExtendedKeyUsagePurpose::ClientAuth, years);
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("ca-cert.pem"), of_server.0.pem()).unwrap();
        std::fs::write(path.join("client-cert.pem"), certificate).unwrap();
        std::fs::write(path.join("client-key.pem"), key).unwrap();
        path.display().to_string()
    }
}

const VALID: std::ops::Range<i32> = 2020..2100;

/// Writes a file that its owner alone may read; answers the line of the setting that names it.
fn setting(array: &Array, name: &str, file: &str, text: &str) -> String {
    let path = array.path(file);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    format!("{name} = {:?}\n", path.display().to_string())
}

/// The settings of a certificate of this machine, which counts in these years.
fn own_certificate(array: &Array, authority: &Authority, years: std::ops::Range<i32>) -> String {
    let names = ["127.0.0.1", "localhost"];
    let (certificate, key) = authority.sign(&names, ExtendedKeyUsagePurpose::ServerAuth, years);
    setting(array, "tls_certificate", "server.pem", &certificate)
        + &setting(array, "tls_key", "server.key", &key)
}

/// Serves a volume over TLS to who has a certificate of this authority; answers the port.
fn serve(array: &mut Array, authority: &Authority, more: &str) -> u16 {
    let clients = setting(array, "nbd_tls_clients", "clients.pem", &authority.0.pem());
    array.configure(&format!("nbd_tls_listen = [\"127.0.0.1:0\"]\n{clients}{more}"));
    array.start();
    make_volume(array);
    let door = door(array);
    assert_eq!(door["state"], "serving", "{door}");
    port_of(&door)
}

fn make_volume(array: &Array) {
    let drive = format!("{},size=1GiB", array.path("main.img").display());
    array.good(&["pool", "create", "main", "--drive", &drive]);
    array.good(&["volume", "create", "v", "--size", "64MiB"]);
}

/// The door as `ashlar status` tells it.
fn door(array: &Array) -> Value {
    let status = array.json(&["status"]);
    let doors = status["doors"].as_array().unwrap();
    doors.iter().find(|door| door["name"] == "nbd" && door["transport"] == "tls").unwrap().clone()
}

fn port_of(door: &Value) -> u16 {
    door["address"].as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap()
}

/// An array that serves a volume over TLS, its port, and the authority of both sides.
fn array() -> (Array, u16, Authority) {
    let mut array = Array::unstarted();
    let authority = Authority::new("both");
    let own = own_certificate(&array, &authority, VALID);
    let port = serve(&mut array, &authority, &own);
    (array, port, authority)
}

fn run(program: &str, arguments: &[&str]) -> Done {
    done(Command::new(program).args(arguments).stdin(Stdio::null()).output().unwrap())
}

fn info(port: u16, directory: &str) -> Done {
    run("nbdinfo", &["--size", &format!("nbds://127.0.0.1:{port}/v?tls-certificates={directory}")])
}

#[test]
fn who_shows_a_certificate_of_the_authority_comes_in_and_nobody_else() {
    let (array, port, authority) = array();
    let stranger = Authority::new("stranger");
    let good = authority.directory(array.path("good"), VALID, &authority);
    let expired = authority.directory(array.path("expired"), 2020..2021, &authority);
    let foreign = stranger.directory(array.path("foreign"), VALID, &authority);
    let mistrusting = authority.directory(array.path("mistrusting"), VALID, &stranger);
    let nothing = array.path("nothing");
    std::fs::create_dir(&nothing).unwrap();
    std::fs::copy(Path::new(&good).join("ca-cert.pem"), nothing.join("ca-cert.pem")).unwrap();

    let size = info(port, &good);
    assert_eq!((size.status, size.out.trim()), (0, "67108864"), "{}", size.err);
    for (what, directory) in [
        ("expired", expired),
        ("foreign", foreign),
        ("mistrusting", mistrusting),
        ("none", nothing.display().to_string()),
    ] {
        let refused = info(port, &directory);
        assert_ne!(refused.status, 0, "{what}: {}", refused.out);
    }
    let plain = run("nbdinfo", &["--size", &format!("nbd://127.0.0.1:{port}/v")]);
    assert_ne!(plain.status, 0, "{}", plain.out);
    assert!(plain.err.contains("TLS"), "{}", plain.err);
    assert_eq!(array.json(&["client", "list"]).as_array().unwrap().len(), 0, "who was refused is none");
    array.wait_for_log("did not get as far as TLS", 1);
}

#[test]
fn qemu_and_libnbd_read_what_the_other_wrote() {
    let (array, port, authority) = array();
    let directory = authority.directory(array.path("client"), VALID, &authority);
    let (source, copy) = (array.path("source.raw"), array.path("copy.raw"));
    let bytes: Vec<u8> = (0..64u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(&source, &bytes).unwrap();

    let credentials = format!("tls-creds-x509,id=t,endpoint=client,dir={directory}");
    let volume = format!("driver=nbd,host=127.0.0.1,port={port},export=v,tls-creds=t");
    let written = run(
        "qemu-img",
        &[
            "convert",
            "-n",
            "--object",
            &credentials,
            "-f",
            "raw",
            "--target-image-opts",
            source.to_str().unwrap(),
            &volume,
        ],
    );
    assert_eq!(written.status, 0, "{}", written.err);
    let address = format!("nbds://127.0.0.1:{port}/v?tls-certificates={directory}");
    let read = run("nbdcopy", &[&address, copy.to_str().unwrap()]);
    assert_eq!(read.status, 0, "{}", read.err);
    assert!(std::fs::read(&copy).unwrap() == bytes, "the bytes are others");
}

#[test]
fn a_client_is_listed_with_its_address_and_cut_off() {
    let (array, port, authority) = array();
    let directory = authority.directory(array.path("client"), VALID, &authority);
    let address = format!("nbds://127.0.0.1:{port}/v?tls-certificates={directory}");
    // It writes into a pipe that nobody reads.
    let mut copy = Command::new("nbdcopy");
    copy.args([&address, "-"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut held = copy.spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    let client = loop {
        let clients = array.json(&["client", "list"]);
        // One that has just come has not said yet which volume it wants.
        if let Some(client) = clients.as_array().unwrap().iter().find(|client| client["volume"].is_string()) {
            break client.clone();
        }
        assert!(Instant::now() < end, "no client at a volume: {clients}");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!((&client["transport"], &client["volume"]), (&"tls".into(), &"v".into()), "{client}");
    assert!(client["address"].as_str().unwrap().starts_with("127.0.0.1:"), "{client}");
    array.refused(&["volume", "delete", "v", "--yes"], &["127.0.0.1:"]);
    array.good(&["client", "disconnect", &client["id"].to_string()]);
    let end = Instant::now() + Duration::from_secs(10);
    while !array.json(&["client", "list"]).as_array().unwrap().is_empty() {
        assert!(Instant::now() < end, "it is still there");
        std::thread::sleep(Duration::from_millis(50));
    }
    held.kill().unwrap();
    held.wait().unwrap();
}

/// The harm: a crowd of connections that say nothing, and no place for anybody else.
#[test]
fn who_says_nothing_is_let_go_and_a_stop_waits_for_nobody() {
    let (mut array, port, _authority) = array();
    let mut silent: Vec<TcpStream> =
        (0..8).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    let began = Instant::now();
    for stream in &mut silent {
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut said = Vec::new();
        stream.read_to_end(&mut said).unwrap();
        assert_eq!(said.len(), 18, "the greeting, and no more");
    }
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let _late = TcpStream::connect(("127.0.0.1", port)).unwrap();
    assert_eq!(array.terminate(), Some(0), "{}", array.log());
}

#[test]
fn without_a_certificate_of_the_settings_the_array_makes_one() {
    let mut array = Array::unstarted();
    let authority = Authority::new("clients");
    let port = serve(&mut array, &authority, "");
    let directory = authority.directory(array.path("client"), VALID, &authority);
    let mistrusted = info(port, &directory);
    assert_ne!(mistrusted.status, 0, "the client has not been told of it: {}", mistrusted.out);
    std::fs::copy(array.state().join("tls/certificate.pem"), Path::new(&directory).join("ca-cert.pem"))
        .unwrap();
    let size = info(port, &directory);
    assert_eq!((size.status, size.out.trim()), (0, "67108864"), "{}", size.err);
}

/// The harm: anybody on the network keeps all hosts out.
#[test]
fn strangers_without_a_certificate_give_way_to_who_has_one() {
    let mut array = Array::unstarted();
    let authority = Authority::new("both");
    let port = serve(&mut array, &authority, "nbd_clients_max = 8\n");
    let directory = authority.directory(array.path("client"), VALID, &authority);
    let own = array.state().join("tls/certificate.pem");
    std::fs::copy(own, Path::new(&directory).join("ca-cert.pem")).unwrap();
    let began = Instant::now();
    for _ in 0..3 {
        let _strangers: Vec<TcpStream> =
            (0..20).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
        let size = info(port, &directory);
        assert_eq!((size.status, size.out.trim()), (0, "67108864"), "{}", size.err);
    }
    assert!(began.elapsed() < Duration::from_secs(9), "{:?}: their time was over", began.elapsed());
}

#[test]
fn an_address_whose_certificate_is_mended_later_is_opened_then() {
    let mut array = Array::unstarted();
    let authority = Authority::new("both");
    let own = own_certificate(&array, &authority, 2020..2021);
    let clients = setting(&array, "nbd_tls_clients", "clients.pem", &authority.0.pem());
    array.configure(&format!("nbd_tls_listen = [\"127.0.0.1:0\"]\n{clients}{own}"));
    array.start();
    make_volume(&array);
    let failed = door(&array);
    assert_eq!(failed["state"], "failed", "{failed}");
    assert!(failed["reason"].as_str().unwrap().contains("over"), "{failed}");
    own_certificate(&array, &authority, VALID);
    wait_until("the address is open", || door(&array)["state"] == "serving");
    let directory = authority.directory(array.path("client"), VALID, &authority);
    let size = info(port_of(&door(&array)), &directory);
    assert_eq!((size.status, size.out.trim()), (0, "67108864"), "{}", size.err);
}
