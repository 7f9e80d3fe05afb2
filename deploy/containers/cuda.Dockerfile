# syntax=docker/dockerfile:1
# A judge on GPUs: deploy/containers/run.sh MODEL builds and runs it.
FROM python:3.12-slim-bookworm AS build
ENV UV_LINK_MODE=copy UV_COMPILE_BYTECODE=1
RUN pip install --no-cache-dir uv==0.13.8 && uv venv /opt/reward_serve
# Requirements rarely change and code often does, so each has its own layer.
COPY requirements/cuda.txt /tmp/cuda.txt
RUN uv pip install --no-cache --python /opt/reward_serve --no-deps -r /tmp/cuda.txt
COPY . /src
RUN uv pip install --no-cache --python /opt/reward_serve --no-deps /src /src/answers /src/checkers /src/judge

FROM python:3.12-slim-bookworm
# Triton compiles its launchers with a C compiler when a kernel first runs.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 serve \
    && install --directory --owner serve /hub
COPY --from=build /opt/reward_serve /opt/reward_serve
# A volume at /hub keeps downloads, and this owner.
ENV PATH=/opt/reward_serve/bin:$PATH HF_HOME=/hub
USER 10001
WORKDIR /home/serve
EXPOSE 8000
HEALTHCHECK --start-period=15m --interval=10s --timeout=5s \
    CMD ["reward-serve", "wait", "--timeout-s", "0", "--quiet"]
ENTRYPOINT ["reward-serve", "serve"]
# Every interface of the container; publish port 8000, and give --api-keys-file.
CMD ["Qwen/Qwen3-4B-Instruct-2507", "--host", "0.0.0.0"]
