//! Runs simulator seeds from the command line: `seeds FIRST COUNT [MINUTES] [twice] [verbose]`.

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| arguments.get(index).and_then(|text| text.parse().ok());
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    let options = ashlar_sim::Options {
        first_seed: number(0).unwrap_or(1),
        seeds: number(1).unwrap_or(100),
        minutes: number(2),
        is_verbose: has("verbose"),
        check_determinism: has("twice"),
    };
    match ashlar_sim::run(&options, &mut |_| {}) {
        Ok(summary) => println!("{summary}"),
        Err(failure) => {
            for line in &failure.trace {
                println!("{line}");
            }
            println!("{failure}");
            std::process::exit(1);
        }
    }
}
