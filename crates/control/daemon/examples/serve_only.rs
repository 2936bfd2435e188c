fn main() {
    let words: Vec<String> = std::env::args().collect();
    let value =
        |name: &str| words.iter().position(|word| word == name).and_then(|at| words.get(at + 1)).cloned();
    let options = ashlar_daemon::Options {
        state: value("--state").unwrap().into(),
        config: value("--config").map(Into::into),
        api: value("--api"),
    };
    if let Err(error) = ashlar_daemon::serve(options) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
