# Hermes in a container. docs/install.md says how to use it; `make image` builds it and asks it a prompt.
#
#   docker build -t hermes .                            or podman
#   docker run -it --rm -v hermes:/data hermes           the chat; settings and sessions stay in the volume
#   docker run -d -v hermes:/data hermes gateway run     the gateway
#
# Debian 12 has the Python that the locked packages are tested with.
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS build
# pip reads these where they are given: another index, or none.
ARG PIP_INDEX_URL PIP_TRUSTED_HOST
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-venv binutils
COPY requirements/run.txt /source/requirements/
# The locked packages by their checksums, wheels only; without the embedded model, which is for trying things out.
RUN awk '/^[^ #]/ { wanted = !/^xllamacpp==/ } wanted' /source/requirements/run.txt > /source/locked.txt \
 && python3 -m venv /opt/hermes \
 && /opt/hermes/bin/pip install --no-cache-dir --no-deps --require-hashes --only-binary :all: -r /source/locked.txt
COPY pyproject.toml README.md LICENSE /source/
COPY hermes /source/hermes
RUN /opt/hermes/bin/pip install --no-cache-dir --no-deps --no-build-isolation /source \
 && /opt/hermes/bin/pip uninstall --yes flit_core setuptools pip
# What only a compiler or a debugger reads, and the packages' own tests: a fifth of all.
RUN cd /opt/hermes/lib/python3*/site-packages \
 && find . -name '*.so' -not -path '*.libs/*' -exec strip --strip-unneeded {} + \
 && find . -type d -name tests -prune -exec rm -r {} + \
 && find . -type f \( -name '*.c' -o -name '*.h' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.pyi' \) -delete

FROM ${BASE}
# More programs for the agent, such as: --build-arg PACKAGES="git ripgrep"
ARG PACKAGES=""
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 tini ca-certificates ${PACKAGES} \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/cache/debconf/*-old /var/log/*.log /var/log/apt \
 && useradd --uid 1000 --create-home --shell /bin/bash hermes \
 && chmod 777 /home/hermes \
 && install -d -o hermes -g hermes -m 700 /data \
 && install -d -o hermes -g hermes -m 777 /work
COPY --from=build /opt/hermes /opt/hermes
ENV PATH=/opt/hermes/bin:/usr/local/bin:/usr/bin:/bin HOME=/home/hermes HERMES_HOME=/data LANG=C.UTF-8
USER hermes
WORKDIR /work
VOLUME /data
# A gateway is asked whether it runs; elsewhere the home is examined.
HEALTHCHECK --interval=60s --timeout=20s --start-period=60s \
  CMD case "$(tr '\0' ' ' </proc/1/cmdline)" in *" gateway "*) hermes gateway status ;; *) hermes doctor ;; esac >/dev/null
# tini reaps what commands leave behind, and passes signals on.
ENTRYPOINT ["/usr/bin/tini", "--", "hermes"]
