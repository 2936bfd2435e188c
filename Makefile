# The three commands. Each installs what it needs first and says so; see tests/install-tools.sh.

# Where rustup and Debian keep what a bare environment does not list.
export PATH := $(PATH):$(HOME)/.cargo/bin:/usr/sbin:/sbin

.PHONY: test demo bench tools build

# What CI runs: format, clippy with the determinism bans, tidy, tests, simulator seeds, fuzz smoke.
test:
	@tests/install-tools.sh --tests
	cargo xtask ci

# A database lives on an Ashlar volume, is cloned, loses two drives, is killed and recovered. About six minutes.
# KEEP=1 leaves it running, and its console.
demo: tools build
	target/release/ashlar demo --record target/demo $(if $(KEEP),--keep)

# Side by side with the peers, on this machine, in one run.
bench: tools build
	tests/bench/run.sh

build:
	cargo build --release --package ashlar-cli

tools:
	@tests/install-tools.sh
