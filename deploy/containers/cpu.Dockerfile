# syntax=docker/dockerfile:1
# The bundled judge, or any that fits on cores: deploy/containers/run.sh builds and runs it.
FROM python:3.12-slim-bookworm AS build
ENV UV_LINK_MODE=copy UV_COMPILE_BYTECODE=1 UV_TORCH_BACKEND=cpu
RUN pip install --no-cache-dir uv==0.13.8 && uv venv /opt/reward_serve
# Requirements rarely change and code often does, so each has its own layer.
COPY requirements/cpu.txt /tmp/cpu.txt
RUN uv pip install --no-cache --python /opt/reward_serve --no-deps -r /tmp/cpu.txt
COPY . /src
RUN uv pip install --no-cache --python /opt/reward_serve --no-deps /src /src/answers /src/checkers /src/judge

FROM python:3.12-slim-bookworm
# vLLM's CPU kernels are linked against libnuma.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends libnuma1 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 serve
COPY --from=build /opt/reward_serve /opt/reward_serve
ENV PATH=/opt/reward_serve/bin:$PATH
USER 10001
WORKDIR /home/serve
# The judge's weights are in the image, so that a replica does not convert them when it starts.
RUN reward-serve prepare
EXPOSE 8000
HEALTHCHECK --start-period=3m --interval=10s --timeout=5s \
    CMD ["reward-serve", "wait", "--timeout-s", "0", "--quiet"]
ENTRYPOINT ["reward-serve", "serve"]
# Every interface of the container; publish port 8000, and give --api-keys-file.
CMD ["--host", "0.0.0.0"]
