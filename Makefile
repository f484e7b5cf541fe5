# plimsoll: `make run` measures this machine, `make test` checks plimsoll.
.DEFAULT_GOAL := help
SHELL := /bin/bash
CARGO := $(shell command -v cargo || ls $(HOME)/.cargo/bin/cargo 2>/dev/null)
PLIMSOLL := target/release/plimsoll
# Where `make install` copies to; DESTDIR is put before it.
PREFIX := /usr/local
SKIPPED := $(CURDIR)/target/skipped-tests
# Tests mostly wait: for intervals, devices, networks and other programs. So two CPUs do six at a time; one does one.
TEST_THREADS := $(shell n=$$(nproc); echo $$((n > 1 && n < 6 ? 6 : n)))

# Test programs of the crates beside the program's own.
CRATE_TESTS := $(sort $(basename $(notdir $(filter-out crates/plimsoll/%,$(wildcard crates/*/tests/*.rs)))) \
	$(notdir $(patsubst %/main.rs,%,$(filter-out crates/plimsoll/%,$(wildcard crates/*/tests/*/main.rs)))))

# Suites that run at a time.
SUITES := $(shell n=$$(nproc); echo $$((n == 1 ? 1 : 2)))

ARM := aarch64-unknown-linux-gnu

.PHONY: help cargo build run install uninstall test test-program test-release test-crates test-isas test-arm lint docs bench fuzz dist setup

help: ## show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-9s %s\n", $$1, $$2}'

cargo:
	@test -n "$(CARGO)" || { echo "plimsoll needs cargo (Rust 1.95 or newer) and found none: install it with rustup (rustup.rs; Debian 12's own rustc is too old), then run make again" >&2; exit 2; }
	@command -v cc >/dev/null || { echo "plimsoll needs a linker and a C compiler (ring is built with it): install it with 'apt-get install gcc libc6-dev'" >&2; exit 2; }

build: cargo
	@"$(CARGO)" build --release --locked --package plimsoll

run: build ## build plimsoll and measure this machine in less than a minute
	@$(PLIMSOLL) run quick

install: build ## copy plimsoll, its man pages and completions below PREFIX=/usr/local
	@DESTDIR="$(DESTDIR)" ./packaging/install "$(PREFIX)"

uninstall: ## remove what make install copied
	@DESTDIR="$(DESTDIR)" ./packaging/install --remove "$(PREFIX)"

setup: cargo
	@./packaging/test-setup

test: setup ## install what the tests need, and run all of them
	@mkdir -p target && rm -f $(SKIPPED)
	@"$(CARGO)" test --locked --workspace --no-run
	@PLIMSOLL_SKIPPED=$(SKIPPED) $(MAKE) --no-print-directory -j$(SUITES) test-program test-arm
	@PLIMSOLL_SKIPPED=$(SKIPPED) $(MAKE) --no-print-directory -j$(SUITES) --output-sync=target test-crates
	@PLIMSOLL_SKIPPED=$(SKIPPED) $(MAKE) --no-print-directory test-isas test-release
	@touch $(SKIPPED); echo "skipped here: $$(wc -l < $(SKIPPED))"; sed 's/^/  /' $(SKIPPED)

# The whole program.
test-program: cargo
	@RUST_TEST_THREADS=$(TEST_THREADS) "$(CARGO)" test --locked --workspace --test integration

# All but the whole program. With --workspace, which builds the crates as for the program's tests.
test-crates: cargo
	@"$(CARGO)" test --locked --workspace --lib --bins $(addprefix --test ,$(CRATE_TESTS))
	@"$(CARGO)" test --locked --workspace --doc

# The unit tests of kernels, and of benchmarks that choose among them, as on processors with fewer instruction sets: the features
# of one entry (names of /proc/cpuinfo) are hidden at a time. `test-crates` runs them with all that this processor has.
HIDDEN_FEATURES := avx512f avx2,avx512f,amx_tile avx2,avx512f,amx_tile,sse4_1,sse4_2
test-isas: cargo
	@for hidden in $(HIDDEN_FEATURES); do \
		grep -qw "$${hidden%%,*}" /proc/cpuinfo || continue; \
		echo "with $$hidden hidden:"; \
		PLIMSOLL_TEST_HIDDEN=$$hidden "$(CARGO)" test --locked --workspace --lib --quiet -- isa:: kernel:: capability:: gemm:: lu:: stream:: block:: cpu:: memory:: || exit 1; \
	done

# Every command once by the program as it is released, which has no debug assertions.
test-release: build
	@PLIMSOLL_RELEASE=$(CURDIR)/$(PLIMSOLL) "$(CARGO)" test --locked --workspace --test integration -- release::

# The NEON and SVE kernels under an emulator (SVE's vectors of 256 bits): that they compute rightly, not how fast. The
# emulator knows neither pinning nor io_uring, so only the kernels' own tests are made, with fewer and smaller cases. They compute all the time
# and give way to the program's tests, which mostly wait.
test-arm: cargo
	@if [ "$$(uname -m)" = aarch64 ]; then exit 0; fi; \
	if ! rustup target add $(ARM) >/dev/null 2>&1 || ! command -v qemu-aarch64 aarch64-linux-gnu-gcc >/dev/null; then \
		echo "the kernels of $(ARM): needs rustup's target of that name, qemu-user and gcc-aarch64-linux-gnu" | tee -a "$${PLIMSOLL_SKIPPED:-/dev/null}"; exit 0; fi; \
	export PLIMSOLL_TEST_EMULATED=1 CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc; \
	export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -cpu max,sve-default-vector-length=32 -L /usr/aarch64-linux-gnu"; \
	nice -n 19 "$(CARGO)" test --locked --package plimsoll-metal --target $(ARM) --lib --test disassembly -- kernel:: gemm:: lu:: isa:: stream:: block:: clock:: declared_counts chains_ bandwidth_kernels && \
	echo "with sve hidden:" && PLIMSOLL_TEST_HIDDEN=sve \
	nice -n 19 "$(CARGO)" test --locked --package plimsoll-metal --target $(ARM) --lib -- kernel:: gemm:: lu:: isa:: stream:: block::

lint: cargo ## formatting, clippy and docs without a warning, lock files that fit
	"$(CARGO)" fmt --all --check
	"$(CARGO)" clippy --locked --workspace --all-targets -- --deny warnings
	RUSTDOCFLAGS="--deny warnings" "$(CARGO)" doc --locked --workspace --no-deps --quiet
	"$(CARGO)" metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml > /dev/null

# The builder of the book, of this version unless one is installed.
MDBOOK := $(shell command -v mdbook || echo $(CURDIR)/target/tools/bin/mdbook)
MDBOOK_VERSION := 0.5.4

docs: cargo ## build the documents as a book: target/book/index.html
	@command -v "$(MDBOOK)" >/dev/null || "$(CARGO)" install --quiet --locked --root target/tools --no-default-features --features search mdbook@$(MDBOOK_VERSION)
	@"$(MDBOOK)" build docs

bench: build ## measure plimsoll's own floor and figures, as docs/src/performance.md tells
	@./benches/run

fuzz: cargo ## fuzz what reads the wire, 60 s a target, guided by coverage (SECONDS_EACH=n)
	@CARGO="$(CARGO)" ./fuzz/run

dist: cargo ## build static programs for x86-64 and aarch64, .deb packages and container images, and try each (installs what that needs)
	@CARGO="$(CARGO)" ./packaging/dist
