# A server with the module. The data is in /data, as in the base image:
#
#     docker build -t dehydrator .
#     docker run --rm -p 127.0.0.1:6379:6379 -v dehydrator:/data dehydrator
#
# With Valkey: docker build --build-arg SERVER=valkey/valkey:8 -t dehydrator .
# INFO shows the commit if the folder is a clone; elsewhere: --build-arg DEHYDRATOR_COMMIT=<the commit>
#
# Any base image of Debian 12 or later works; images with Alpine's C library do not.
ARG SERVER=redis:8

# For the images of a release, scripts/release-images.sh replaces this stage by what it would have built.
FROM rust:1-bookworm AS build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends git libclang-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /dehydrator
COPY . .
ARG DEHYDRATOR_COMMIT=
RUN cargo build --release --locked \
    && strip --strip-debug target/release/libdehydrator.so
RUN cargo build --release --locked --manifest-path console/Cargo.toml --target-dir target/top \
    && strip target/top/release/dehydrator-top
RUN mkdir -p etc/dehydrator && dist/image-configuration <redis.conf >etc/dehydrator/dehydrator.conf \
    && scripts/third-party.sh >THIRD-PARTY

# hadolint ignore=DL3006
FROM ${SERVER}
COPY --from=build /dehydrator/target/release/libdehydrator.so /usr/local/lib/
# docker exec -it <container> dehydrator-top; or with --web, the page.
COPY --from=build /dehydrator/target/top/release/dehydrator-top /usr/local/bin/
COPY --from=build /dehydrator/LICENSE /dehydrator/THIRD-PARTY /usr/local/share/doc/dehydrator/
# The user of the servers is 999 in the official images. CONFIG REWRITE and ACL SAVE write a new file beside the old one.
COPY --from=build --chown=999:999 /dehydrator/etc/ /usr/local/etc/
# The entrypoints of both images take the name of a configuration file, and start their server with it, as an
# unprivileged user.
CMD ["/usr/local/etc/dehydrator/dehydrator.conf"]
