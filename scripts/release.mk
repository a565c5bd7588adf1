# Packages, images and releases: included by ../Makefile.

.PHONY: package package-test image-test release release-test release-notes publisher packages-test

package: build ## target/package: a .deb, its line tables, a tarball, release notes, sums
	@scripts/setup.sh package
	@# A build from before the commit reports another commit.
	@[ "$$(scripts/commit.sh)" = "$$(scripts/commit.sh --here)" ] || { touch src/version.rs && $(MAKE) --no-print-directory build; }
	CARGO_TARGET_DIR=target/top cargo build --release --locked --manifest-path console/Cargo.toml
	scripts/package.sh

package-test: package ## Install the .deb in a clean Debian (root), start the packaged servers, remove it (SUITES=)
	scripts/package-test.sh $(SUITES)

# The module for this machine alone, and a server that takes a minute to build.
PACKAGES := target/release-packages
packages-test: build ## Build the packages for PyPI, npm and RubyGems for this machine, install and use them
	@mkdir -p $(PACKAGES)/modules/$(shell uname -m)-unknown-linux-gnu
	cp $(MODULE) $(PACKAGES)/modules/$(shell uname -m)-unknown-linux-gnu/
	CARGO_TARGET_DIR=target/top cargo build --release --locked --manifest-path console/Cargo.toml
	@# Not a static one, as in a release.
	@mkdir -p $(PACKAGES)/modules/$(shell uname -m)-unknown-linux-musl
	cp target/top/release/dehydrator-top $(PACKAGES)/modules/$(shell uname -m)-unknown-linux-musl/
	rm -rf $(PACKAGES)/built
	PUBLISHER=tests/data/publisher.toml OPTIMIZATION=-O1 scripts/release-packages.sh $(PACKAGES)/built $(PACKAGES)/modules
	PUBLISHER=tests/data/publisher.toml scripts/release-packages-test.sh $(PACKAGES)/built --quick

image-test: ## Build the image of the Dockerfile with buildah, and start it (root; minutes)
	@scripts/setup.sh image
	scripts/image-test.sh

release: ## Build all files of a release in target/release-files, from a clean clone of a tag (root; KEY=, the OpenPGP key that signs; BASES=stand-ins)
	KEY="$(KEY)" BASES="$(BASES)" scripts/release.sh

release-test: ## Try the files of `make release` as users would (root; KEY= to make them twice; ONLY=steps)
	KEY="$(KEY)" scripts/release-test.sh

release-notes: ## Print the topmost version's notes from CHANGELOG.md
	@scripts/release-notes.sh

publisher: ## Copy the publisher's addresses from dist/publisher.toml to every file that has them
	scripts/publisher.py fill
