# docker buildx build --platform linux/amd64,linux/arm64 --tag REGISTRY/cluster-healer:0.1.0 --push .
#
# The base is an index over both architectures, pinned by digest. To take a newer one:
#   docker buildx imagetools inspect python:3.11-slim-bookworm
#   docker buildx build --build-arg BASE=python:3.11-slim-bookworm@sha256:… .
ARG BASE=python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b

FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
# What seldom changes comes first, so that a change of the code installs nothing anew. Every file is checked by its hash, and
# only wheels are taken: nothing is compiled, and nothing of anybody else's runs here.
COPY requirements.lock requirements-build.lock ./
RUN python -m venv --without-pip /opt/healer
RUN python -m pip --python /opt/healer/bin/python install --only-binary :all: --require-hashes --requirement requirements.lock
RUN python -m pip install --only-binary :all: --require-hashes --requirement requirements-build.lock
COPY pyproject.toml README.md LICENSE ./
COPY actions actions
COPY collectors collectors
COPY rules rules
COPY healer healer
RUN python -m pip wheel --no-deps --no-build-isolation --wheel-dir /wheel .
RUN python -m pip --python /opt/healer/bin/python install --no-deps --no-index --find-links /wheel cluster-healer

FROM ${BASE}
LABEL org.opencontainers.image.title="Healer" org.opencontainers.image.licenses="Apache-2.0"
# libpq wants a name for whoever it runs as.
RUN useradd --uid 65532 --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin healer \
    && install --directory --owner 65532 --group 65532 --mode 0700 /var/lib/healer
COPY --from=build /opt/healer /opt/healer
# The file system may be read-only: nothing is written but below /var/lib/healer.
ENV PATH=/opt/healer/bin:$PATH HEALER_CONFIG=/etc/healer/healer.yaml PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
WORKDIR /var/lib/healer
EXPOSE 9095
ENTRYPOINT ["healer"]
CMD ["run"]
