# A broker, and everything beside it but Spark, in one image (docs/containers.md).
#
#   docker build -t moldau .
#   docker run --rm -p 127.0.0.1:9092:9092 moldau
#
# BASE: any image with Python 3.11 or newer as python3, and apt-get (or a C compiler) for the build.
# EXTRAS: what is installed beside the broker; see [project.optional-dependencies] in pyproject.toml.
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
ARG EXTRAS=cluster,security,registry,rest
RUN command -v gcc >/dev/null || { apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev; }
RUN python3 -m venv /opt/moldau
COPY pyproject.toml setup.py README.md LICENSE /source/
COPY src /source/src
RUN /opt/moldau/bin/pip install --no-cache-dir --disable-pip-version-check "/source[${EXTRAS}]"

FROM ${BASE}
LABEL org.opencontainers.image.title="Moldau" \
      org.opencontainers.image.description="Kafka, installable with pip: a broker that every Kafka client can use" \
      org.opencontainers.image.licenses="Apache-2.0"
# The user and the folders are those of Kafka's image, so that its volumes and compose files fit.
RUN useradd --uid 1000 --create-home appuser \
    && install -d -o appuser -g appuser /var/lib/kafka/data /etc/kafka/secrets /mnt/shared/config
COPY --from=build /opt/moldau /opt/moldau
COPY docker/entrypoint.sh docker/healthcheck.py /opt/moldau/container/
ENV PATH=/opt/moldau/bin:$PATH \
    PYTHONUNBUFFERED=1
RUN moldau version && moldau kafka-home /opt/kafka
USER appuser
WORKDIR /home/appuser
VOLUME /var/lib/kafka/data
EXPOSE 9092 9640 8081 8082
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python3", "/opt/moldau/container/healthcheck.py"]
ENTRYPOINT ["/bin/sh", "/opt/moldau/container/entrypoint.sh"]
CMD ["serve"]
