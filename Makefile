# plimsoll: `make run` measures this machine, `make test` checks plimsoll.
.DEFAULT_GOAL := help
SHELL := /bin/bash
CARGO := $(shell command -v cargo || ls $(HOME)/.cargo/bin/cargo 2>/dev/null)
PLIMSOLL := target/release/plimsoll
SKIPPED := $(CURDIR)/target/skipped-tests

.PHONY: help cargo build run test lint bench setup

help: ## show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-7s %s\n", $$1, $$2}'

cargo:
	@test -n "$(CARGO)" || { echo "plimsoll needs cargo (Rust 1.95 or newer) and found none: install it with rustup (rustup.rs; Debian 12's own rustc is too old), then run make again" >&2; exit 2; }
	@command -v cc >/dev/null || { echo "plimsoll needs a C compiler to build its SQLite: install it with 'apt-get install gcc libc6-dev'" >&2; exit 2; }

build: cargo
	@"$(CARGO)" build --release --locked --package plimsoll

run: build ## build plimsoll and measure this machine in less than a minute
	@$(PLIMSOLL) run quick

setup: cargo
	@./packaging/test-setup

test: setup ## install what the tests need, and run all of them
	@mkdir -p target && rm -f $(SKIPPED)
	@PLIMSOLL_SKIPPED=$(SKIPPED) "$(CARGO)" test --locked --workspace
	@touch $(SKIPPED); echo "skipped here: $$(wc -l < $(SKIPPED))"; sed 's/^/  /' $(SKIPPED)

lint: cargo ## formatting, clippy without a warning, docs without a warning
	"$(CARGO)" fmt --all --check
	"$(CARGO)" clippy --locked --workspace --all-targets -- --deny warnings
	RUSTDOCFLAGS="--deny warnings" "$(CARGO)" doc --locked --workspace --no-deps --quiet

bench: build ## measure plimsoll's own floor and figures, as docs/performance.md tells
	@./benches/run
