# A server with the module. The data is in /data, as in the base image:
#
#     docker build -t dehydrator .
#     docker run --rm -p 127.0.0.1:6379:6379 -v dehydrator:/data dehydrator
#
# With Valkey: docker build --build-arg SERVER=valkey/valkey:8 -t dehydrator .
# To show the commit in INFO: --build-arg DEHYDRATOR_COMMIT="$(scripts/commit.sh --here)"
#
# Any base image of Debian 12 or later works; images with Alpine's C library do not.
ARG SERVER=redis:8

FROM rust:1-bookworm AS build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends libclang-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /dehydrator
COPY . .
ARG DEHYDRATOR_COMMIT=
RUN cargo build --release --locked \
    && strip --strip-debug target/release/libdehydrator.so
# redis.conf, but without `bind` and protected mode: `docker run -p` and container networks control who can
# reach a container.
RUN sed '/^bind /d; s/^protected-mode .*/protected-mode no/' redis.conf >dehydrator.conf \
    && echo "loadmodule /usr/local/lib/libdehydrator.so" >>dehydrator.conf

# hadolint ignore=DL3006
FROM ${SERVER}
COPY --from=build /dehydrator/target/release/libdehydrator.so /usr/local/lib/
COPY --from=build /dehydrator/dehydrator.conf /usr/local/etc/
# The entrypoints of both images take the name of a configuration file, and start their server with it, as an
# unprivileged user.
CMD ["/usr/local/etc/dehydrator.conf"]
