# One image for every service, the command line and the demo's trainings: what is started in it says which it is.
ARG PYTHON=python:3.11-slim-bookworm

FROM ${PYTHON} AS build
WORKDIR /build
COPY requirements/uv.txt requirements/runtime.txt requirements/
RUN python3 -m venv uv \
 && uv/bin/pip install --quiet --no-cache-dir --require-hashes -r requirements/uv.txt \
 && python3 -m venv /opt/steepest \
 && uv/bin/uv pip install --quiet --no-cache --python /opt/steepest/bin/python \
      --no-deps --require-hashes --compile-bytecode -r requirements/runtime.txt
COPY pyproject.toml .
COPY libs libs
COPY services services
RUN uv/bin/uv pip install --quiet --no-cache --python /opt/steepest/bin/python \
      --no-deps --compile-bytecode ./libs/* ./services

FROM ${PYTHON} AS criu
COPY tools/criu/install.sh .
RUN apt-get update --quiet && sh install.sh /opt/steepest-criu

FROM ${PYTHON}
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/steepest steepest
COPY --from=build /opt/steepest /opt/steepest
COPY --from=criu /opt/steepest-criu /opt/steepest-criu
ENV PATH=/opt/steepest/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    STEEPEST_CRIU_HOME=/opt/steepest-criu \
    STEEPEST_STATE_DIR=/var/lib/steepest
USER steepest
WORKDIR /var/lib/steepest
CMD ["steepest", "up"]
