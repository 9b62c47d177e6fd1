# No "# syntax=" line: it would fetch a frontend from a registry first; the one built into Docker (and buildah) has all this.
# What it is built on is settled by this tag alone; for a build that nothing can change, name it with its digest:
# --build-arg PYTHON_IMAGE=python:3.13-slim@sha256:…
ARG PYTHON_IMAGE=python:3.13-slim
# The same Python with its headers and a C compiler, which compiles the hot path of the client; on an image without these
# (--build-arg BUILD_IMAGE=python:3.13-slim) the client runs interpreted.
ARG BUILD_IMAGE=python:3.13

# What others wrote: the only layer that needs the network, made anew only when the hashed requirements change.
# Its embedded store is Valkey 9.1.2, which the tests run.
FROM ${BUILD_IMAGE} AS deps
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore PIP_NO_COMPILE=1 \
    PYTHONDONTWRITEBYTECODE=1 PYTHONHASHSEED=0
WORKDIR /src
COPY requirements.lock ./
RUN python -m venv --without-pip /app \
 && python -m pip --python /app/bin/python install --quiet --no-deps --require-hashes --only-binary :all: --requirement requirements.lock \
 # Their tests, and what is for compilers alone: 17 of 139 MB.
 && find /app/lib -type d -name tests -prune -exec rm -r {} + \
 && find /app/lib -type f -not -path '*/Cython/*' -regex '.*\.\([ach]\|pxd\|pyx\)' -delete

# What we wrote, made into wheels by the locked uv_build (it looks for its program on the PATH), and compiled by the locked Cython;
# both then go again.
FROM deps AS build
COPY client client
COPY service service
RUN PATH="$PATH:/app/bin" python -m pip --python /app/bin/python wheel --quiet --no-index --no-deps --no-build-isolation \
        --wheel-dir /wheels ./client ./service \
 && /app/bin/python client/compile.py \
 && mkdir -p client/src/acker_client/_core/compiled && mv client/src/acker_client/_core/compiled /compiled \
 && python -m pip --python /app/bin/python uninstall --quiet --yes cython uv_build \
 && /app/bin/python -m compileall -q --invalidation-mode unchecked-hash /app/lib

FROM ${PYTHON_IMAGE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="acker" \
      org.opencontainers.image.description="Tells the sender of a message when everything that grew out of it is done." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /app /app
# pip, not uv: uv would hand back an older wheel of the same version out of its cache, and notes times in what it installs.
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels --mount=type=bind,from=build,source=/compiled,target=/compiled \
    PYTHONHASHSEED=0 python -m pip --python /app/bin/python install --quiet --no-cache-dir --no-index --no-deps --no-compile \
        --root-user-action=ignore /wheels/*.whl \
 && cp -r /compiled /app/lib/python*/site-packages/acker_client/_core/ \
 && PYTHONHASHSEED=0 /app/bin/python -m compileall -q --invalidation-mode unchecked-hash \
        /app/lib/python*/site-packages/acker_* \
 && install -d -o 65532 -g 65532 /data
# Without keys it answers under loopback names, as a published port is called, and IP addresses; docs/access.md says why.
ENV PATH=/app/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp \
    ACKER_HOST=0.0.0.0 ACKER_ALLOWED_HOSTS=localhost ACKER_DATA_DIR=/data
USER 65532:65532
WORKDIR /tmp
EXPOSE 8700
# For Docker; Kubernetes does not look at it and has the probes of the chart.
HEALTHCHECK --interval=10s --timeout=6s --start-period=30s CMD ["acker", "health", "--acker", ""]
ENTRYPOINT ["acker"]
CMD ["serve"]
