# The image of hookgw: `docker build -t hookgw .`, then `docker compose up`, or see docs/install.md, under "Containers".

FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml hatch_build.py LICENSE compose.yaml config.example.yaml ./
COPY README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md ./
COPY hookgw hookgw
COPY plugins plugins
COPY docs docs
# Compiled here, because the running container may not write to its own files.
RUN python -m venv /opt/hookgw \
    && /opt/hookgw/bin/pip install --no-cache-dir --compile ".[mcp,otel,postgresql,rabbitmq]"

FROM python:3.13-slim
# A fixed number, so that the owner of a volume stays the same from image to image.
RUN groupadd --gid 10001 hookgw \
    && useradd --uid 10001 --gid hookgw --no-create-home --home-dir /var/lib/hookgw --shell /usr/sbin/nologin hookgw \
    && install --directory --owner hookgw --group hookgw --mode 0700 /var/lib/hookgw \
    && install --directory /etc/hookgw
COPY --from=build /opt/hookgw /opt/hookgw
# These two override the same keys of a mounted configuration.
ENV PATH=/opt/hookgw/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    HOOKGW_SERVER__BIND='["0.0.0.0:8080"]' \
    HOOKGW_STORAGE__PATH=/var/lib/hookgw/hookgw.db
USER 10001:10001
# hookgw reads config.yaml and the folder plugins here, if you mount them.
WORKDIR /etc/hookgw
VOLUME /var/lib/hookgw
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=10s --start-period=30s --retries=3 CMD ["hookgw", "health"]
ENTRYPOINT ["hookgw"]
CMD ["serve"]
