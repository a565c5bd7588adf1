# A server with the module in it. The data is in /data, as in the image it is made from:
#
#     docker build -t dehydrator .
#     docker run --rm -p 127.0.0.1:6379:6379 -v dehydrator:/data dehydrator
#
# From Valkey: docker build --build-arg SERVER=valkey/valkey:8 -t dehydrator .
# To have INFO tell the commit: --build-arg DEHYDRATOR_COMMIT="$(scripts/commit.sh --here)"
#
# Any image will do that is made from Debian 12 or later; those with Alpine's C library will not.
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
# As redis.conf says, but for whom it listens to: a container is reached from outside or not at all, and
# who may reach it is said by `docker run -p` and by networks.
RUN sed '/^bind /d; s/^protected-mode .*/protected-mode no/' redis.conf >dehydrator.conf \
    && echo "loadmodule /usr/local/lib/libdehydrator.so" >>dehydrator.conf

# hadolint ignore=DL3006
FROM ${SERVER}
COPY --from=build /dehydrator/target/release/libdehydrator.so /usr/local/lib/
COPY --from=build /dehydrator/dehydrator.conf /usr/local/etc/
# The entrypoints of both images take the name of a configuration, and start their own server with it, as
# a user of its own.
CMD ["/usr/local/etc/dehydrator.conf"]
