# dpaudit in a container, as a user who may do nothing else: `docker build -t dpaudit .`, then in a project
#     docker run --rm -v "$PWD:/work" dpaudit gate
FROM python:3.13-slim AS wheel
COPY . /source
RUN pip wheel --quiet --no-deps --wheel-dir /wheels /source

FROM python:3.13-slim
COPY --from=wheel /wheels /wheels
RUN pip install --quiet --no-cache-dir /wheels/*.whl && rm -r /wheels && useradd --create-home dpaudit
USER dpaudit
WORKDIR /work
ENTRYPOINT ["dpaudit"]
CMD ["--help"]
